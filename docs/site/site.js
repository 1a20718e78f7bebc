// Turns blocks of `<div class="tabs">` into tabs. The chosen language holds on all pages, and is remembered.
(() => {
    const KEY = "tickwheel-language";
    const groups = [];
    const remembered = () => {
        try { return localStorage.getItem(KEY); } catch { return null; }
    };

    function choose(name) {
        for (const { tabs } of groups) {
            const chosen = tabs.find((tab) => tab.name === name) ?? tabs.find((tab) => tab.selected) ?? tabs[0];
            for (const tab of tabs) {
                tab.selected = tab === chosen;
                tab.block.hidden = !tab.selected;
                tab.button.setAttribute("aria-selected", String(tab.selected));
                tab.button.tabIndex = tab.selected ? 0 : -1;
            }
        }
    }

    for (const group of document.querySelectorAll(".tabs")) {
        const bar = document.createElement("div");
        bar.className = "tabs-bar";
        bar.setAttribute("role", "tablist");
        const tabs = [...group.querySelectorAll(":scope > .tab")].map((block) => {
            const button = document.createElement("button");
            const name = block.dataset.name;
            button.textContent = name;
            button.setAttribute("role", "tab");
            block.setAttribute("role", "tabpanel");
            const tab = { name, block, button, selected: false };
            button.addEventListener("click", () => {
                // The page stays where the reader's eye is, though blocks above change their height.
                const before = button.getBoundingClientRect().top;
                choose(name);
                window.scrollBy(0, button.getBoundingClientRect().top - before);
                try { localStorage.setItem(KEY, name); } catch { /* It is not remembered. */ }
            });
            bar.append(button);
            return tab;
        });
        bar.addEventListener("keydown", (event) => {
            const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
            if (!step) return;
            event.stopPropagation();
            const next = tabs[(tabs.findIndex((tab) => tab.selected) + step + tabs.length) % tabs.length];
            next.button.click();
            next.button.focus();
        });
        group.prepend(bar);
        group.classList.add("ready");
        groups.push({ tabs });
    }
    choose(remembered());
})();
