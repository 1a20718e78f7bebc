// Looks at the dashboard of a service with many tasks: node burden.mjs PROGRAM [TASKS] [DEAD].
//
// - Tasks are found among TASKS (20,000) by id, key, label and error, in a second each, and the address shows another session the
//   same.
// - DEAD dead letters (2,000) are redriven in two clicks, also when the tab is closed behind them.
// - A hundred streams of changes that programs read take at most a twentieth of a core, and a hidden browser sends nothing.
import assert from "node:assert/strict";

import { Browser, pause, until } from "./browser.mjs";
import { Service } from "./service.mjs";

const [program, tasks = "20000", dead = "2000"] = process.argv.slice(2);
const [TASKS, DEAD] = [Number(tasks), Number(dead)];
const STREAMS = 100;
const SECONDS = 20;
const service = await Service.start(program);
const browser = await Browser.start();

const checks = {
  async "tasks are found among many, in a second each"() {
    const ids = await service.register(TASKS, (at) => ({ callback: `c${at % 7}`, delay: `${3600 + at}s`, key: `order-${at}`,
      labels: { tenant: `t${at % 997}` } }));
    const tab = await browser.tab();
    const [other, at] = [await browser.tab(), Math.floor(TASKS / 2)];
    const slowest = [];
    for (const [query, found] of [
      [ids[at], ids[at]],
      [`order-${at}`, ids[at]],
      [`callback:c${at % 7} order-${at}`, ids[at]],
      [`callback:c${at % 7} label:tenant=t${at % 997}`, ids[at]],
    ]) {
      // Three actions: into the box, the words, Enter.
      await tab.open(`${service.url}/`);
      await tab.run(`(() => { const box = document.querySelector("input[name=q]"); box.focus(); box.value = ${JSON.stringify(query)}; })()`);
      const began = performance.now();
      await tab.run("document.querySelector('form.find').requestSubmit()");
      await until(`${query} is found`, () => tab.run(`document.body.innerHTML.includes(${JSON.stringify(found)})`), 30_000);
      slowest.push(performance.now() - began);
      await other.open(await tab.run("location.href"));
      assert.ok(await other.run(`document.body.innerHTML.includes(${JSON.stringify(found)})`), `${query} is not the same elsewhere`);
    }
    console.log(`found in ${slowest.map((ms) => Math.round(ms)).join(", ")} ms among ${TASKS}`);
    assert.ok(Math.max(...slowest) < 1000, "a search takes longer than a second");
  },

  async "dead letters are redriven in two clicks, and the job goes on without the page"() {
    await service.register(DEAD, () => ({ callback: "dies", max_attempts: 1 }));
    const counted = async () => (await service.api("GET", "/v1/dead-letters:groups?callback=dies")).reduce((sum, { tasks }) => sum + tasks, 0);
    await service.work(["dies"], () => ({ outcome: "retry", error: "smtp says 550" }), async () => (await counted()) >= DEAD);
    const tab = await browser.tab();
    await tab.open(`${service.url}/dead-letters`);
    const group = await tab.run("[...document.querySelectorAll('main a')].find((one) => one.href.includes('error='))?.href");
    await tab.open(group);
    await tab.run("[...document.querySelectorAll('main button')].find((one) => one.textContent.startsWith('Redrive all')).click()");
    await pause(300);
  
    await tab.run("document.querySelector('#all button[value=all]').click()");
    await until("a job is there", async () => (await service.api("GET", "/v1/jobs")).jobs.length > 0);
    await tab.call("Page.close").catch(() => {});
    await until("the job has ended", async () => (await service.api("GET", "/v1/jobs")).jobs[0].end_time, 300_000);
    const [job] = (await service.api("GET", "/v1/jobs")).jobs;
    assert.deepEqual([job.state, job.done, job.failed], ["completed", DEAD, 0], JSON.stringify(job));
    assert.equal(await counted(), 0);
  },

  async "a hundred streams cost a twentieth of a core, and a hidden browser sends nothing"() {
    const stop = new AbortController();
    const pages = ["/", "/tasks", "/callbacks", "/jobs"].map((page) => `page=${encodeURIComponent(page)}`);
    for (let at = 0; at < STREAMS; at += 1)
      fetch(`${service.url}/live?${pages[at % pages.length]}`, { signal: stop.signal })
        .then(async (answer) => {
          assert.equal(answer.status, 200);
          for await (const _ of answer.body);
        })
        .catch((error) => stop.signal.aborted || console.log(`a stream: ${error}`));
    await pause(3000);
    const before = service.cpu();
    await pause(SECONDS * 1000);
    const share = (service.cpu() - before) / SECONDS;
    stop.abort();
    console.log(`${STREAMS} streams take ${(share * 100).toFixed(1)} % of a core`);
    const tab = await browser.tab();
    await tab.open(`${service.url}/`);
    await until("it watches", () => tab.run("document.getElementById('pause') && !document.getElementById('pause').hidden"));
    await tab.call("Emulation.setFocusEmulationEnabled", { enabled: false });
    await tab.run("Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))");
    await pause(2000);
    const asked = tab.asked.length;
    await pause(SECONDS * 1000);
    assert.equal(tab.asked.length, asked, "a hidden page asks");
    assert.ok(share <= 0.05, "the streams cost more than a twentieth of a core");
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
  }
}
await browser.stop();
await service.stop();
process.exit(failed ? 1 : 0);
