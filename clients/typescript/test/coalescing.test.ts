import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, TimeoutError } from "tickwheel";
import { Fake, facts, json, registered } from "./fake.js";
import { client, pause, unique, until } from "./support.js";

/** A service that takes 50 ms for a registration. */
function slow(): Promise<Fake> {
    return new Fake(async ({ path, body }, response) => {
        if (path === "/v1/ids") return json(response, 200, facts());
        await pause(50);
        return json(response, 200, registered(body));
    }).listen();
}

const sizes = (fake: Fake): number[] =>
    fake.asked.filter(({ path }) => path.includes("batchCreate")).map(({ body }) => (JSON.parse(body) as { tasks: unknown[] }).tasks.length);

test("what comes while a request is under way is the next one", async () => {
    await using fake = await slow();
    const tasks = new Client(fake.url);
    await tasks.register({ callback: "a" });
    const first = tasks.register({ callback: "a" });
    await pause(25);
    const others = Array.from({ length: 300 }, () => tasks.register({ callback: "a" }));
    await Promise.all([first, ...others]);
    assert.deepEqual(sizes(fake), [1, 1, 256, 44]);
});

test("requests are bounded by their bytes, and a larger task travels alone", async () => {
    await using fake = await slow();
    const tasks = new Client(fake.url);
    await tasks.register({ callback: "a" });
    const kib = (count: number) => tasks.register({ callback: "a", payload: "ä".repeat(count * 512) });
    await Promise.all([kib(400), kib(400), kib(400), kib(1500), kib(1)]);
    assert.deepEqual(sizes(fake), [1, 2, 1, 1, 1]);
});

test("each caller has its own time and its own signal, and the request goes on for the others", async () => {
    await using fake = await slow();
    const tasks = new Client(fake.url);
    await tasks.register({ callback: "a" });
    const stop = new AbortController();
    const reason = new Error("no longer of interest");
    const [hasty, stopped, patient] = [
        tasks.register({ callback: "hasty" }, { timeout: 20 }),
        tasks.register({ callback: "stopped" }, { signal: stop.signal }),
        tasks.register({ callback: "patient" }),
    ];
    setTimeout(() => stop.abort(reason), 25);
    await assert.rejects(hasty, (error) => error instanceof TimeoutError && error.sent);
    await assert.rejects(stopped, reason);
    assert.equal((await patient).state, "scheduled");
    assert.deepEqual(sizes(fake), [1, 3]);
});

test("what a caller takes back before it was sent is not sent", async () => {
    await using fake = await slow();
    const tasks = new Client(fake.url);
    await tasks.register({ callback: "a" });
    const first = tasks.register({ callback: "first" });
    await pause(10);
    const stop = new AbortController();
    const second = tasks.register({ callback: "second" }, { signal: stop.signal });
    await pause(5);
    stop.abort();
    await assert.rejects(second, { name: "AbortError" });
    await first;
    await pause(80);
    assert.ok(!fake.asked.some(({ body }) => body.includes("second")));
});

test("a request that nobody waits for any more is broken off", async () => {
    let ended = false;
    await using fake = await new Fake(({ path }, response) => {
        if (path === "/v1/ids") return json(response, 200, facts());
        return response.on("close", () => (ended = true));
    }).listen();
    const tasks = new Client(fake.url);
    const stop = new AbortController();
    const calls = [1, 2].map(() => assert.rejects(tasks.register({ callback: "a" }, { signal: stop.signal }), { name: "AbortError" }));
    await until("it was asked", () => fake.asked.some(({ path }) => path.includes("batchCreate")));
    assert.ok(!ended);
    stop.abort();
    await Promise.all(calls);
    await until("it was broken off", () => ended);
});

test("cancels travel together as well, and lonely calls wait for nothing", async () => {
    const tasks = await client();
    const callback = unique("together");
    const made = await Promise.all(Array.from({ length: 200 }, () => tasks.register({ callback, delay: "1h" })));
    const outcomes = await Promise.all(made.map(({ id }) => tasks.cancel(id)));
    assert.ok(outcomes.every(({ outcome }) => outcome === "cancelled"));
    const began = performance.now();
    for (let count = 0; count < 20; count += 1) await tasks.register({ callback, delay: "1h" });
    assert.ok((performance.now() - began) / 20 < 50);
});
