// Injects faults into a service of one process, and tells what the overview said of each, and after how many seconds:
// node faults.mjs PROGRAM [HEALTHY_SECONDS]. A fault that is not named in time, or one that is named while all is well, is an
// error.
//
// Faults of several nodes (a dead one, a sick topic), of the disk and of the clock have tests of their own; here are those that
// the callers of one node cause.
import assert from "node:assert/strict";

import { pause } from "./browser.mjs";
import { Service } from "./service.mjs";

const [program, seconds = "60"] = process.argv.slice(2);
const service = await Service.start(program);
const callback = (name) => `/v1/callbacks/${name}`;

/** What the overview says is wrong. */
async function news() {
  const html = await (await fetch(service.url + "/")).text();
  const region = html.split("<!--live:news-->")[1].split("<!--/live:news-->")[0];
  return region.split("<li").slice(1).map((line) => line.replace(/^[^>]*>|<[^>]*>/g, "").replaceAll("&#39;", "'").trim());
}

/** Workers that ask for some callbacks until they are stopped. */
function worker(names, end = () => ({ outcome: "succeeded" }), rest = 0) {
  const state = { stopped: false };
  const done = (async () => {
    while (!state.stopped) {
      await service.work(names, end, () => state.stopped).catch(() => {});
      await pause(rest);
    }
  })();
  return { stop: () => ((state.stopped = true), done) };
}

const faults = {
  async "no worker"() {
    await service.api("POST", "/v1/tasks", { callback: "lonely" });
    return [/^lonely has 1 due task and no worker\./, 5];
  },
  async "a typo"() {
    const right = worker(["invoices"]);
    await pause(1500);
    await service.api("POST", "/v1/tasks", { callback: "invoicse" });
    return [/^invoicse has 1 due task and no worker\. Workers ask for invoices: is that the one\?/, 5, right.stop];
  },
  async "a closed gate"() {
    await service.api("POST", callback("mail") + "/gate", { gate: "paused", reason: "smtp moves" });
    return [/^mail is paused: smtp moves\./, 5];
  },
  async "a rate"() {
    await service.api("PUT", callback("slowly"), { rate: { per_second: 1 } });
    await pause(2500);
    const asks = worker(["slowly"]);
    await service.register(60, () => ({ callback: "slowly" }));
    return [/^The rate of slowly holds \d+ due tasks/, 5, asks.stop];
  },
  async "dead letters that grow"() {
    const dies = worker(["dying"], () => ({ outcome: "retry", error: "smtp says 550" }));
    await service.register(20, () => ({ callback: "dying", max_attempts: 1 }));
    return [/^Tasks of dying die: smtp says #\./, 5, dies.stop];
  },
  async "a worker that stopped"() {
    const works = worker(["stops"]);
    await service.register(5, () => ({ callback: "stops" }));
    await pause(3000);
    await works.stop();
    await service.register(3, () => ({ callback: "stops" }));
    return [/^stops has 3 due tasks, and its last worker asked \S+ s ago\./, 12];
  },
};

let failed = false;
try {
  // All is well: six callbacks, a worker that asks every seven seconds, one that is started again, a schedule.
  const names = ["a", "b", "c", "d", "e"];
  await service.api("PUT", "/v1/schedules/minutely", { cron: "* * * * *", task: { callback: "a" } });
  const well = [worker(names), worker(["seldom"], undefined, 7000)];
  const said = new Set();
  const end = Date.now() + Number(seconds) * 1000;
  for (let round = 0; Date.now() < end; round += 1) {
    await service.register(50, (at) => ({ callback: names[at % 5] }));
    if (round % 10 === 0) await service.api("POST", "/v1/tasks", { callback: "seldom" });
    if (round % 20 === 10) {
      await well[0].stop();
      well[0] = worker(names);
    }
    for (const one of await news()) said.add(one);
    await pause(500);
  }
  console.log(`${seconds} s without a fault: ${said.size === 0 ? "nothing is said" : [...said].join("; ")}`);
  failed ||= said.size > 0;
  for (const [name, inject] of Object.entries(faults)) {
    const [expected, limit, after] = await inject();
    const began = Date.now();
    let found;
    while (!found && Date.now() - began < (limit + 1) * 1000) {
      found = (await news()).find((one) => expected.test(one));
      if (!found) await pause(100);
    }
    const took = (Date.now() - began) / 1000;
    console.log(`${name}: ${found ? `after ${took.toFixed(1)} s: ${found}` : `NOT NAMED in ${limit} s: ${(await news()).join("; ")}`}`);
    failed ||= !found || took > limit;
    await after?.();
  }
  for (const one of well) await one.stop();
} finally {
  await service.stop();
}
assert.ok(!failed, "a fault is not named in time, or one is named that is none");
