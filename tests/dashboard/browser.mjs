// A Chromium without a window, driven over its pipe: no package is needed for that.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROGRAMS = [process.env.TICKWHEEL_CHROMIUM, "chromium", "chromium-browser", "google-chrome"].filter(Boolean);

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until something is so, or fails. */
export async function until(what, is, ms = 10_000) {
  for (const end = Date.now() + ms; Date.now() < end; await pause(50)) if (await is()) return;
  throw new Error(`waited in vain: ${what}`);
}

export class Browser {
  static async start() {
    for (const program of PROGRAMS) {
      const browser = new Browser(program);
      if (await browser.ready) return browser;
    }
    throw new Error(`no Chromium was found: ${PROGRAMS.join(", ")} (Debian: chromium)`);
  }

  constructor(program) {
    this.folder = mkdtempSync(join(tmpdir(), "dashboard-"));
    const flags = ["--headless=new", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", `--user-data-dir=${this.folder}`, "about:blank"];
    this.process = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.calls = new Map();
    this.listeners = [];
    this.next = 1;
    let rest = "";
    this.process.stdio[4].on("data", (bytes) => {
      const parts = (rest + bytes).split("\0");
      rest = parts.pop();
      for (const part of parts) this.take(JSON.parse(part));
    });
    this.ready = new Promise((done) => {
      this.process.on("error", () => done(false));
      this.process.on("spawn", () => done(true));
    });
  }

  take(message) {
    const call = this.calls.get(message.id);
    if (call) {
      this.calls.delete(message.id);
      if (message.error) call.fail(new Error(`${call.method}: ${message.error.message}`));
      else call.done(message.result);
    } else for (const listener of this.listeners) listener(message);
  }

  call(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((done, fail) => this.calls.set(id, { method, done, fail }));
  }

  /** Opens a tab. What goes wrong in it is gathered in `wrong`, the addresses that it asks for in `asked`. */
  async tab() {
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.call("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, sessionId);
    for (const domain of ["Page", "Runtime", "Log", "Network", "Audits"]) await tab.call(`${domain}.enable`);
    return tab;
  }

  async stop() {
    const ended = new Promise((done) => this.process.on("exit", done));
    this.call("Browser.close").catch(() => {});
    await Promise.race([ended, pause(3000)]);
    this.process.kill("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Tab {
  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    this.wrong = [];
    this.asked = [];
    this.loads = 0;
    browser.listeners.push(({ method, params, sessionId }) => {
      if (sessionId !== session) return;
      if (method === "Page.loadEventFired") this.loads += 1;
      if (method === "Network.requestWillBeSent") this.asked.push(params.request.url);
      if (method === "Runtime.exceptionThrown") this.wrong.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === "Log.entryAdded" && params.entry.level === "error") this.wrong.push(`${params.entry.text} ${params.entry.url ?? ""}`);
      if (method === "Audits.issueAdded" && params.issue.code === "ContentSecurityPolicyIssue") this.wrong.push(JSON.stringify(params.issue.details));
    });
  }

  call(method, params) { return this.browser.call(method, params, this.session); }

  /** Opens an address, and waits until it is there and its scripts have run. */
  async open(url) {
    const before = this.loads;
    await this.call("Page.navigate", { url });
    await until(`${url} is loaded`, () => this.loads > before);
    await pause(100);
  }

  async size(width, height, dark = false) {
    await this.call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 });
    const features = [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }];
    await this.call("Emulation.setEmulatedMedia", { features });
  }

  /** Runs an expression in the page. */
  async run(expression) {
    const { result, exceptionDetails } = await this.call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  async key(key) {
    for (const type of ["keyDown", "keyUp"])
      await this.call("Input.dispatchKeyEvent", { type, key, text: type === "keyDown" && key.length === 1 ? key : undefined });
  }

  async picture(whole = false) {
    const { data } = await this.call("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole,
      ...(whole ? { clip: { ...(await this.whole()), scale: 1 } } : {}) });
    return Buffer.from(data, "base64");
  }

  async whole() {
    const { cssContentSize } = await this.call("Page.getLayoutMetrics");
    return { x: 0, y: 0, width: cssContentSize.width, height: Math.min(cssContentSize.height, 6000) };
  }
}
