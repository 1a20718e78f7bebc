import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "tickwheel";
import { Fake, facts, json, registered } from "./fake.js";
import { client, pause, unique } from "./support.js";

/** The parts of an id: its start, its version, its wheel, and its look step. */
function parts(id: string): { start: number; version: string; wheel: number; variant: number; step: number } {
    const hex = id.replaceAll("-", "");
    const low = Number.parseInt(hex.slice(16, 18), 16);
    return {
        start: Number.parseInt(hex.slice(0, 12), 16),
        version: hex.slice(12, 13),
        wheel: Number.parseInt(hex.slice(13, 16), 16),
        variant: low >> 6,
        step: low & 0x3f,
    };
}

/** What a client sends for a task, to a service whose clock is an hour ahead. */
async function sent(
    task: Parameters<Client["register"]>[0],
    ahead = 3_600_000,
): Promise<{ id?: string; start_time?: string; delay?: string; idempotency_key?: string }> {
    await using fake = await new Fake(({ path, body }, response) => {
        if (path === "/v1/ids")
            return json(response, 200, { wheels: 4, time: new Date(Date.now() + ahead).toISOString() });
        return json(response, 200, registered(body));
    }).listen();
    await new Client(fake.url).register(task);
    return JSON.parse(fake.asked.at(-1)?.body ?? "").tasks[0];
}

test("a delay becomes a start by the clock of the service, and the id carries it", async () => {
    const before = Date.now() + 3_600_000 + 90_000;
    const { id = "", start_time = "", delay } = await sent({ callback: "c", delay: "90s" });
    const { start, version, wheel, variant, step } = parts(id);
    assert.equal(delay, undefined);
    assert.ok(start >= before && start < before + 2_000);
    assert.deepEqual([new Date(start).toISOString(), version, variant, step], [start_time, "8", 2, 15]);
    assert.ok(wheel < 4);
});

test("a clock that a test moves by the delay reaches the start, also where its answer was slow", async () => {
    const time = "2035-01-01T00:00:00.000Z";
    await using fake = await new Fake(async ({ path, body }, response) => {
        if (path !== "/v1/ids") return json(response, 200, registered(body));
        await pause(20);
        return json(response, 200, { wheels: 4, time, valid_for: "0s" });
    }).listen();
    await new Client(fake.url).register({ callback: "c", delay: "90s" });
    const task = JSON.parse(fake.asked.at(-1)?.body ?? "").tasks[0];
    assert.equal(task.start_time, "2035-01-01T00:01:30.000Z");
});

test("the look step covers the claim timeout", async () => {
    for (const [claim_timeout, step] of [
        ["5s", 0],
        ["5001ms", 1],
        ["60s", 15],
        ["68s", 15],
        ["69s", 16],
        ["1000h", 63],
    ] as const) {
        const { id = "" } = await sent({ callback: "c", claim_timeout });
        assert.equal(parts(id).step, step, claim_timeout);
    }
});

test("a task that the service has to read itself gets a mark in place of an id", async () => {
    const unread = [
        { callback: "c", delay: "PT1M" },
        { callback: "c", delay: "2 weeks" },
        { callback: "c", start_time: "tomorrow" },
        { callback: "c", start_time: "2026-01-01T00:00:00Z" },
        { callback: "c", start_time: "2090-01-01T00:00:00.0001Z" },
        { callback: "c", claim_timeout: "PT1M" },
        { callback: "c", start_time: "2090-01-01T00:00:00Z", delay: "1s" },
    ];
    for (const task of unread) {
        const { id, idempotency_key, ...rest } = await sent(task);
        assert.ok(id === undefined && idempotency_key?.startsWith("tickwheel-ts-"), JSON.stringify(task));
        assert.deepEqual(rest, task);
    }
    assert.deepEqual(await sent({ kafka: { topic: "t" }, delay: "1s" }), { kafka: { topic: "t" }, delay: "1s" });
    assert.deepEqual(await sent({ callback: "c", idempotency_key: "mine" }), {
        callback: "c",
        idempotency_key: "mine",
    });
});

test("the service takes what the client makes, on each of its wheels", async () => {
    const tasks = await client();
    const callback = unique("wheels");
    const made = await Promise.all(
        Array.from({ length: 64 }, (_, place) =>
            tasks.register({ callback, delay: place * 1000, claim_timeout: `${5 + place * place * 60}s` }),
        ),
    );
    assert.deepEqual(new Set(made.map(({ id }) => parts(id).wheel)), new Set([0, 1, 2, 3]));
    for (const { id, start_time } of made) assert.equal(new Date(parts(id).start).toISOString(), start_time);
});

test("the service is asked once for what ids are made of, however many callers wait", async () => {
    await using fake = await new Fake(async ({ path, body }, response) => {
        if (path !== "/v1/ids") return json(response, 200, registered(body));
        await pause(50);
        return json(response, 200, facts());
    }).listen();
    const tasks = new Client(fake.url);
    await Promise.all(Array.from({ length: 20 }, () => tasks.register({ callback: "c" })));
    await tasks.register({ callback: "c" });
    assert.equal(fake.asked.filter(({ path }) => path === "/v1/ids").length, 1);
});
