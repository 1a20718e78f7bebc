// Times, live changes, selection and keys. Pages work without it.
"use strict";

(() => {
  const root = document.documentElement;
  const base = root.dataset.base || "";
  const store = {
    get(name) { try { return localStorage.getItem(name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(name, value); } catch { /* It is not kept then. */ } },
  };

  // Times: in UTC, in the zone of the browser or in that of the page's schedule, and how far away they are.
  let chosen = store.get("tickwheel.zone") || "utc";
  const clocks = new Map();

  // The parts of times in a zone; null where the browser does not know it.
  function clock(name) {
    if (!clocks.has(name)) {
      let made = null;
      try {
        made = new Intl.DateTimeFormat("en-US", { timeZone: name, calendar: "gregory", numberingSystem: "latn", hourCycle: "h23",
          year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
      } catch { /* Its data are older than those of the service. */ }
      clocks.set(name, made);
    }
    return clocks.get(name);
  }

  const own = () => {
    const name = document.querySelector("[data-zone]")?.dataset.zone;
    return name && name !== "UTC" && clock(name) ? name : null;
  };
  const shown = () => {
    if (chosen === "own" && own()) return own();
    return chosen === "local" ? Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC" : "UTC";
  };

  function written(date, form) {
    const of = {};
    for (const { type, value } of (clock(shown()) || clock("UTC")).formatToParts(date)) of[type] = value;
    const ms = form === "ms" ? "." + String(date.getUTCMilliseconds()).padStart(3, "0") : "";
    return `${of.year}-${of.month}-${of.day} ${of.hour}:${of.minute}:${of.second}${ms}`;
  }

  function away(ms) {
    const s = Math.abs(ms) / 1000;
    const [n, unit] = s < 90 ? [s, "s"] : s < 5400 ? [s / 60, "min"] : s < 129600 ? [s / 3600, "h"] : [s / 86400, "d"];
    return ms > 0 ? `in ${Math.round(n)} ${unit}` : `${Math.round(n)} ${unit} ago`;
  }

  function times(within, all) {
    const now = Date.now();
    for (const time of within.querySelectorAll("time[datetime]")) {
      const date = new Date(time.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      if (all) {
        time.textContent = written(date, time.dataset.form);
        time.title = date.toISOString();
      }
      const ago = time.nextElementSibling;
      if (ago && ago.classList.contains("ago")) ago.textContent = away(date.getTime() - now);
    }
  }

  function zone() {
    const name = shown();
    const is = chosen === "own" && own() ? "own" : chosen === "local" ? "local" : "utc";
    const button = document.getElementById("zone");
    if (button) { button.hidden = false; button.textContent = { utc: "UTC", local: "Local time", own: name }[is]; }
    const foot = document.getElementById("shown");
    if (foot) foot.textContent = { utc: "Times are UTC.", local: `Times are local, ${name}.`, own: `Times are of ${name}, the zone of this schedule.` }[is];
    times(document, true);
  }

  // The next of the zones that this page has.
  function turn() {
    const all = own() ? ["utc", "local", "own"] : ["utc", "local"];
    chosen = all[(all.indexOf(chosen) + 1) % all.length];
    store.set("tickwheel.zone", chosen);
    zone();
  }

  // Live changes: by the worker that tabs share, else by asking.
  let paused = store.get("tickwheel.paused") === "yes";
  let port = null;
  let asking = null;
  let tag = "";
  const here = () => {
    const path = location.pathname.slice(base.length) || "/";
    return path + location.search;
  };
  const isLive = () => document.querySelector("[data-live]") !== null;

  function busy(region) {
    return region.contains(document.activeElement) && document.activeElement !== document.body
      && document.activeElement.matches("input, select, textarea")
      || region.querySelector("input:checked") !== null
      || region.querySelector(":popover-open") !== null
      || String(getSelection()) !== "" && getSelection().containsNode(region, true);
  }

  function put(name, html) {
    const region = document.querySelector(`[data-live="${CSS.escape(name)}"]`);
    if (!region || busy(region)) return;
    const open = [...region.querySelectorAll("details")].map((one) => one.open);
    const row = region.contains(document.activeElement) && document.activeElement.closest("tr, li");
    const at = row ? [...row.parentNode.children].indexOf(row) : -1;
    region.innerHTML = html;
    region.querySelectorAll("details").forEach((one, i) => { if (i < open.length) one.open = open[i]; });
    if (at >= 0) region.querySelectorAll("tbody tr, li")[at]?.querySelector("a")?.focus({ preventScroll: true });
    times(region, true);
    if (window.htmx) window.htmx.process(region);
  }

  function told({ data }) {
    if (data.refused) { port = null; ask(); return; }
    if (data.page !== here()) return;
    if (data.gone) { location.reload(); return; }
    put(data.region, data.html);
  }

  async function ask() {
    clearTimeout(asking);
    asking = null;
    if (port || paused || document.hidden || !isLive()) return;
    try {
      const page = here();
      const answer = await fetch(base + page, { headers: tag ? { "if-none-match": tag } : {}, redirect: "manual" });
      if (answer.status === 200 && page === here()) {
        tag = answer.headers.get("etag") || "";
        const html = await answer.text();
        const parts = html.split("<!--live:").slice(1);
        for (const part of parts) {
          const [name, rest] = part.split("-->", 1).concat(part.slice(part.indexOf("-->") + 3));
          put(name, rest.slice(0, rest.indexOf("<!--/live:")));
        }
      } else if (answer.type === "opaqueredirect") { location.reload(); return; }
    } catch { /* The service is away: the next try tells. */ }
    asking = setTimeout(ask, 2000);
  }

  function watch() {
    const button = document.getElementById("pause");
    if (button) {
      button.hidden = !isLive();
      button.textContent = paused ? "Paused" : "Live";
      button.setAttribute("aria-pressed", String(paused));
    }
    const page = paused || document.hidden || !isLive() ? null : here();
    if (port) port.postMessage({ page });
    else ask();
  }

  if (window.SharedWorker) {
    try {
      const worker = new SharedWorker(`${base}/assets/live.js?v=${root.dataset.version}`, "tickwheel");
      port = worker.port;
      worker.addEventListener("error", () => { port = null; ask(); });
      port.addEventListener("message", told);
      port.start();
      addEventListener("pagehide", () => port && port.postMessage({ bye: true }));
      addEventListener("pageshow", watch);
    } catch { port = null; }
  }

  // Selection.
  function picked() {
    const boxes = [...document.querySelectorAll("input[name=id][type=checkbox]")];
    const count = boxes.filter((box) => box.checked).length;
    const text = document.querySelector("[data-picked]");
    if (text) text.textContent = count === 0 ? "With the selected:" : `With the ${count} selected:`;
    const all = document.querySelector("input[data-all]");
    if (all) { all.checked = count > 0 && count === boxes.length; all.indeterminate = count > 0 && count < boxes.length; }
  }

  document.addEventListener("change", ({ target }) => {
    if (target.matches("input[data-all]"))
      for (const box of document.querySelectorAll("input[name=id][type=checkbox]")) box.checked = target.checked;
    if (target.matches("input[type=checkbox]")) picked();
  });

  document.addEventListener("click", ({ target }) => {
    if (target.id === "zone") turn();
    if (target.id === "pause") pause();
  });

  function pause() { paused = !paused; store.set("tickwheel.paused", paused ? "yes" : "no"); watch(); }

  // Keys.
  const places = { o: "/", t: "/tasks", c: "/callbacks", d: "/dead-letters", s: "/schedules", j: "/jobs" };
  let goes = 0;

  function step(by) {
    const rows = [...document.querySelectorAll("table.rows tbody tr")];
    if (rows.length === 0) return;
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by))];
    next.querySelector("a")?.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (goes && Date.now() - goes < 1500 && places[event.key] !== undefined) {
      goes = 0;
      location.assign(base + places[event.key]);
      return;
    }
    goes = 0;
    if (event.key === "g") goes = Date.now();
    else if (event.key === "/") { const find = document.querySelector("input[name=q]"); if (find) { event.preventDefault(); find.focus(); find.select(); } }
    else if (event.key === "?") document.getElementById("keys-help")?.togglePopover();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "p") pause();
    else if (event.key === "z") turn();
    else if (event.key === "x") {
      const box = document.activeElement.closest("tr")?.querySelector("input[name=id]");
      if (box) { box.checked = !box.checked; picked(); }
    }
  });

  document.addEventListener("visibilitychange", watch);
  document.addEventListener("htmx:afterSettle", ({ detail }) => { if (detail.target === document.body) { tag = ""; zone(); watch(); } });
  setInterval(() => { if (!document.hidden) times(document, false); }, 1000);
  zone();
  watch();
})();
