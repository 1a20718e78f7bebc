// Looks at the dashboard of a service as a person does: node check.mjs PAGES KEY [PREFIX [API]]. PAGES and API are addresses; the
// API is at that of the pages unless another one is given. The first thing that is wrong ends it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

import { Browser, until } from "./browser.mjs";

const [origin, key, prefix = "", far = ""] = process.argv.slice(2);
const server = origin + prefix;
const service = far || server;
const PAGES = ["/", "/tasks", "/callbacks", "/dead-letters", "/schedules", "/jobs", "/cluster", "/keys", "/audit", "/new/schedules"];
const AXE = readFileSync(execFileSync(new URL("axe", import.meta.url).pathname, { encoding: "utf8" }).trim(), "utf8");

async function api(method, path, body) {
  const answer = await fetch(service + path, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body ? { "content-type": "application/json" } : {}) },
    body: body && JSON.stringify(body),
  });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.status === 204 ? null : answer.json();
}

const browser = await Browser.start();
const tab = await browser.tab();
const text = () => tab.run("document.body.innerText");
const click = (selector) => tab.run(`(() => { const one = document.querySelector(${JSON.stringify(selector)}); one.click(); return one !== null; })()`);
const says = (words) => until(`the page says ${words}`, async () => (await text()).includes(words));

/** Puts something of each kind into the service; returns the id of a task. */
async function fill() {
  const task = await api("POST", "/v1/tasks", { callback: "dashboard", delay: "1h", key: "filled", labels: { tenant: "acme" },
    payload: { a: [1, { b: "text" }] } });
  await api("POST", "/v1/tasks", { callback: "dashboard" });
  const first = await api("POST", "/v1/tasks", { callback: "first", delay: "30m" });
  await api("POST", "/v1/tasks", { callback: "second", after: { ids: [first.id] } });
  await api("POST", "/v1/tasks", { callback: "dies", max_attempts: 1 });
  const { tasks } = await api("POST", "/v1/worker/poll", { worker: "checker", callbacks: ["dies"], max_tasks: 1, wait: "10s" });
  const settled = tasks.map(({ id, attempt }) => ({ id, attempt, outcome: "retry", error: "smtp says 550" }));
  await api("POST", "/v1/worker/settle", { worker: "checker", tasks: settled });
  await api("PUT", "/v1/schedules/checked", { cron: "0 9 * * *", time_zone: "Europe/Berlin", task: { callback: "report" } });
  await api("PUT", "/v1/callbacks/dashboard", { max_in_flight: 5, description: "of the check" });
  await api("POST", "/v1/callbacks/second/gate", { gate: "paused", reason: "a check" });
  await api("POST", "/v1/jobs", { kind: "redrive", filter: { callback: "dies" }, dry_run: true });
  await until("the job has ended", async () => (await api("GET", "/v1/jobs")).jobs.every(({ end_time }) => end_time));
  return task.id;
}

const checks = {
  async "a reader signs in, and comes back to the page that was asked for"() {
    await tab.open(`${server}/jobs`);
    assert.match(await tab.run("location.pathname"), /\/sign-in$/);
    await tab.run(`document.querySelector("input[name=key]").value = ${JSON.stringify(key)}`);
    await click("main button");
    await until("the jobs are shown", async () => (await tab.run("location.pathname")) === `${prefix}/jobs`);
    assert.equal(await tab.run("document.cookie"), "", "no script sees the key");
  },

  async "every page fits into both widths, and its times are written by the script"() {
    for (const [width, dark] of [[1280, false], [390, true]]) {
      await tab.size(width, 800, dark);
      for (const path of PAGES) {
        await tab.open(server + path);
        const wide = await tab.run("document.scrollingElement.scrollWidth - innerWidth");
        assert.ok(wide <= 0, `${path} is ${wide} pixels wider than ${width}`);
        assert.match(await text(), /Times are UTC\./);
      }
    }
    await tab.size(1280, 800);
  },

  async "nothing keeps people from using a page, full or empty, in light and in the dark"() {
    const id = await fill();
    const things = [`/tasks/${id}`, "/callbacks/dashboard", "/schedules/checked", "/schedules/checked/change", "/callbacks/none",
      "/tasks?q=callback%3Anone", "/cluster?ahead=days", "/tasks/all?q=callback%3Adashboard"];
    for (const [width, dark] of [[1280, false], [1280, true], [390, false]]) {
      await tab.size(width, 800, dark);
      for (const path of [...PAGES, ...things]) {
        await tab.open(server + path);
        await tab.run(AXE + "; null");
        const found = await tab.run(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(({ id, help, nodes }) => id + ": " + help + " " + nodes.map(({ html }) => html.slice(0, 120)).join(" | ")))`);
        assert.deepEqual(found, [], `${path} at ${width} pixels${dark ? " in the dark" : ""}`);
      }
    }
    await tab.size(1280, 800);
  },

  async "a schedule is made, and its times are shown in its own zone by the switch"() {
    await tab.open(`${server}/new/schedules`);
    const set = (name, value) => tab.run(`document.querySelector("[name=${name}]").value = ${JSON.stringify(value)}`);
    await set("name", "tokyo");
    await set("cron", "30 7 * * *");
    await set("time_zone", "Asia/Tokyo");
    await click("main button[value=look]");
    await says("These are its first runs.");
    await click("main button[value=save]");
    await says("The schedule is made.");
    const first = () => tab.run("document.querySelector('[data-live=ahead] time').textContent");
    assert.match(await first(), / 22:30:00$/);
    assert.match(await text(), /Times are UTC\./);
    await click("#zone");
    await click("#zone");
    assert.match(await first(), / 07:30:00$/);
    assert.match(await text(), /Times are of Asia\/Tokyo, the zone of this schedule\./);
    // A change that comes by itself is written so, too, and another page has no such zone.
    await until("it stays so", async () => (await first()).endsWith("07:30:00"));
    await tab.open(`${server}/`);
    assert.match(await text(), /Times are UTC\./);
    await api("DELETE", "/v1/schedules/tokyo");
    await tab.run("localStorage.removeItem('tickwheel.zone')");
  },

  async "a task changes on its open page without loading it anew, and is cancelled there"() {
    const task = await api("POST", "/v1/tasks", { callback: "dashboard", delay: "1h", payload: { n: 1 } });
    await tab.open(`${server}/tasks/${task.id}`);
    await says("scheduled");
    assert.match(await text(), /in 1 h|in 60 min/);
    await tab.run("window.stayed = true");
    await api("POST", `/v1/tasks/${task.id}/run`);
    await says("enqueued");
    assert.equal(await tab.run("window.stayed"), true, "the page was loaded anew");
    await click("button[popovertarget=cancel]");
    assert.equal(await tab.run("document.querySelector('#cancel').matches(':popover-open')"), true);
    await click("#cancel button[value=cancel]");
    await says("cancelled");
    assert.equal((await api("GET", `/v1/tasks/${task.id}`)).state, "cancelled");
  },

  async "two tabs share one stream"() {
    const before = tab.asked.filter((url) => url.includes("/live?")).length;
    const other = await browser.tab();
    await other.open(`${server}/jobs`);
    await other.open(`${server}/cluster`);
    const streams = [...tab.asked, ...other.asked].filter((url) => url.includes("/live?")).length - before;
    assert.equal(streams, 0, "a page opened a stream of its own");
    assert.deepEqual(other.wrong, []);
  },

  async "keys lead to pages, to the search and through rows"() {
    for (const at of [1, 2, 3]) await api("POST", "/v1/tasks", { callback: "dashboard", delay: "2h", key: `row-${at}` }).catch(() => {});
    await tab.open(`${server}/`);
    await tab.key("g");
    await tab.key("t");
    // The script of a page takes keys from its end on.
    await until("the tasks are shown", () => tab.run(`location.pathname === "${prefix}/tasks" && document.readyState === "complete"`));
    await until("rows are there", () => tab.run("document.querySelectorAll('table.rows tbody tr').length >= 3"));
    await tab.key("j");
    await tab.key("j");
    assert.equal(await tab.run("[...document.querySelectorAll('table.rows tbody tr')].findIndex((row) => row.contains(document.activeElement))"), 1);
    await tab.key("x");
    assert.match(await text(), /With the 1 selected/);
    await tab.key("/");
    assert.equal(await tab.run("document.activeElement.name"), "q");
  },

  async "a hostile task is text"() {
    const evil = "<img src=x onerror=\"window.ran = 1\"><script>window.ran = 1</script>";
    const task = await api("POST", "/v1/tasks", { callback: "dashboard", delay: "1h", key: evil, labels: { x: evil }, payload: { [evil]: evil } });
    for (const path of [`/tasks/${task.id}`, "/tasks"]) {
      await tab.open(server + path);
      assert.ok((await text()).includes("onerror="), `${path} does not show it`);
      assert.equal(await tab.run("window.ran"), undefined, `${path} ran it`);
    }
  },

  async "nothing left the origin, and nothing broke the policy"() {
    const others = tab.asked.filter((url) => !url.startsWith(server) && !url.startsWith("about:") && !url.startsWith("data:"));
    assert.deepEqual(others, []);
    assert.deepEqual(tab.wrong, []);
  },
};

let failed = false;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok: ${name}`);
  } catch (error) {
    console.log(`FAILED: ${name}\n${error.stack}`);
    failed = true;
    break;
  }
}
await browser.stop();
process.exit(failed ? 1 : 0);
