import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, TimeoutError } from "tickwheel";
import { Fake, facts, json, registered } from "./fake.js";
import { client, pause, unique, until } from "./support.js";

/** A service that answers a registration when the test says so. */
class Held extends Fake {
    readonly waiting: (() => void)[] = [];
    #open = false;

    constructor() {
        super(async ({ path, body }, response) => {
            if (path === "/v1/ids") return json(response, 200, facts());
            if (!this.#open) await new Promise<void>((resolve) => this.waiting.push(resolve));
            return json(response, 200, registered(body));
        });
    }

    /** Makes a client that has a request under way. */
    async busy(): Promise<{ tasks: Client; first: Promise<unknown> }> {
        await this.listen();
        const tasks = new Client(this.url);
        const first = tasks.register({ callback: "first" });
        await until("the first request is there", () => this.waiting.length === 1);
        return { tasks, first };
    }

    /** Answers what waits and what comes. */
    release(): void {
        this.#open = true;
        for (const answer of this.waiting) answer();
    }

    sizes(): number[] {
        const batches = this.asked.filter(({ path }) => path.includes("batchCreate"));
        return batches.map(({ body }) => (JSON.parse(body) as { tasks: unknown[] }).tasks.length);
    }
}

test("what comes while a request is under way is the next one", async () => {
    await using held = new Held();
    const { tasks, first } = await held.busy();
    const others = Array.from({ length: 300 }, () => tasks.register({ callback: "a" }));
    held.release();
    await Promise.all([first, ...others]);
    assert.deepEqual(held.sizes(), [1, 256, 44]);
});

test("requests are bounded by their bytes, and a larger task travels alone", async () => {
    await using held = new Held();
    const { tasks, first } = await held.busy();
    const kib = (count: number) => tasks.register({ callback: "a", payload: "ä".repeat(count * 512) });
    const others = [kib(400), kib(400), kib(400), kib(1500), kib(1)];
    await pause(20);
    held.release();
    await Promise.all([first, ...others]);
    assert.deepEqual(held.sizes(), [1, 2, 1, 1, 1]);
});

test("each caller has its own time and its own signal, and the request goes on for the others", async () => {
    await using held = new Held();
    const { tasks, first } = await held.busy();
    held.waiting.pop()?.();
    await first;
    const stop = new AbortController();
    const reason = new Error("no longer of interest");
    const patient = tasks.register({ callback: "patient" });
    const hasty = assert.rejects(
        tasks.register({ callback: "hasty" }, { timeout: 1_000 }),
        (error) => error instanceof TimeoutError && error.sent,
    );
    const stopped = assert.rejects(tasks.register({ callback: "stopped" }, { signal: stop.signal }), reason);
    await until("all are under way", () => held.waiting.length === 1);
    stop.abort(reason);
    await Promise.all([hasty, stopped]);
    held.release();
    await patient;
    assert.deepEqual(held.sizes(), [1, 3]);
});

test("what a caller takes back before it was sent is not sent", async () => {
    await using held = new Held();
    const { tasks, first } = await held.busy();
    const stop = new AbortController();
    const taken = assert.rejects(tasks.register({ callback: "taken back" }, { signal: stop.signal }), {
        name: "AbortError",
    });
    const hasty = assert.rejects(
        tasks.register({ callback: "hasty" }, { timeout: 50 }),
        (error) => error instanceof TimeoutError && !error.sent,
    );
    const last = tasks.register({ callback: "last" });
    await pause(20);
    stop.abort();
    await Promise.all([taken, hasty]);
    held.release();
    await Promise.all([first, last]);
    assert.deepEqual(held.sizes(), [1, 1]);
});

test("a request that nobody waits for any more is broken off", async () => {
    let ended = false;
    await using fake = await new Fake(({ path }, response) => {
        if (path === "/v1/ids") return json(response, 200, facts());
        return response.on("close", () => (ended = true));
    }).listen();
    const tasks = new Client(fake.url);
    const stop = new AbortController();
    const calls = [1, 2].map(() =>
        assert.rejects(tasks.register({ callback: "a" }, { signal: stop.signal }), { name: "AbortError" }),
    );
    await until("it was asked", () => fake.asked.some(({ path }) => path.includes("batchCreate")));
    assert.ok(!ended);
    stop.abort();
    await Promise.all(calls);
    await until("it was broken off", () => ended);
});

test("cancels travel together as well", async () => {
    const tasks = await client();
    const callback = unique("together");
    const made = await Promise.all(Array.from({ length: 200 }, () => tasks.register({ callback, delay: "1h" })));
    const outcomes = await Promise.all(made.map(({ id }) => tasks.cancel(id)));
    assert.ok(outcomes.every(({ outcome }) => outcome === "cancelled"));
});
