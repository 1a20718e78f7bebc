// The worker that all tabs of a browser share: one stream of changes for the pages that are seen.
"use strict";

const base = self.location.pathname.replace(/\/assets\/[^/]*$/, "");
const tabs = new Map(); // port -> the page that it shows, or null while it is hidden
let source = null;
let watched = "";

function restart() {
  const pages = [...new Set([...tabs.values()].filter(Boolean))].sort();
  const query = pages.map((page) => "page=" + encodeURIComponent(page)).join("&");
  if (query === watched) return;
  watched = query;
  if (source) source.close();
  source = null;
  if (!query) return;
  source = new EventSource(base + "/live?" + query);
  source.addEventListener("region", (event) => tell(JSON.parse(event.data)));
  source.addEventListener("gone", (event) => tell({ page: JSON.parse(event.data), gone: true }));
  source.addEventListener("error", () => {
    // A browser tries again by itself after a break, but not after a refusal.
    if (source && source.readyState === EventSource.CLOSED) {
      watched = "";
      for (const port of tabs.keys()) port.postMessage({ refused: true });
    }
  });
}

function tell(message) {
  for (const [port, page] of tabs) if (page === message.page) port.postMessage(message);
}

self.addEventListener("connect", (event) => {
  const port = event.ports[0];
  port.addEventListener("message", ({ data }) => {
    if (data.bye) tabs.delete(port);
    else tabs.set(port, data.page);
    restart();
  });
  port.start();
});
