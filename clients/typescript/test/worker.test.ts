import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidArgumentError, Outcome, type TickwheelError, ValidationError, Worker } from "tickwheel";
import * as v from "valibot";
import { z } from "zod";
import { client, pause, unique, until, worker } from "./support.js";

test("a handler gets its payload by its schema, and its value is the result", async () => {
    const tasks = await client();
    const callback = unique("greet");
    await using running = await worker();
    const greeting = z.object({ name: z.string(), times: z.number().default(1) });
    void running
        .task(callback, greeting, ({ payload, attempt }) => ({
            text: `hello ${payload.name}`.repeat(payload.times),
            attempt,
        }))
        .run();
    const task = await tasks.register({ callback, payload: { name: "Ada" } });
    const result = await tasks.result(task.id, z.object({ text: z.string(), attempt: z.number() }));
    assert.deepEqual(result, { text: "hello Ada", attempt: 1 });
});

test("another library of schemas does as well, also for results", async () => {
    const tasks = await client();
    const [good, wrong] = [unique("valid"), unique("invalid")];
    const options = { payload: v.object({ n: v.number() }), result: v.object({ doubled: v.number() }) };
    await using running = await worker();
    void running
        .task(good, options, async ({ payload }) => ({ doubled: payload.n * 2 }))
        .task(wrong, options, async () => JSON.parse(`{"doubled": "two"}`))
        .run();
    const task = await tasks.register({ callback: good, payload: { n: 2 } });
    assert.deepEqual(await tasks.result(task.id, options.result), { doubled: 4 });
    const other = await tasks.register({ callback: wrong, payload: { n: 2 } });
    await assert.rejects(tasks.result(other.id), /the result does not fit its schema: doubled: /);
});

test("a payload that does not fit fails its task for good, with what is wrong and where", async () => {
    const tasks = await client();
    const callback = unique("picky");
    await using running = await worker();
    void running.task(callback, z.object({ user: z.object({ name: z.string() }) }), () => assert.fail("it ran")).run();
    const task = await tasks.register({ callback, payload: { user: { name: 7 } } });
    const ended = await tasks.wait(task.id);
    assert.deepEqual([ended.state, ended.attempt], ["failed", 1]);
    assert.match(ended.error ?? "", /the payload does not fit its schema: user\.name: .*expected string/);
});

test("an error is a retry with its causes, and an outcome is what it says", async () => {
    const tasks = await client();
    const callback = unique("outcomes");
    const snoozed: number[] = [];
    const handle = ({ payload, attempt }: { payload: unknown; attempt: number }) => {
        if (payload === "throws" && attempt === 1)
            throw new Error("cannot send", { cause: new Error("socket closed") });
        if (payload === "fails") throw Outcome.fail("there is no such user");
        if (payload === "later" && attempt === 1) return Outcome.retry("busy", { delay: 300 });
        if (payload === "snoozes" && snoozed.push(Date.now()) < 3) return Outcome.snooze("100ms");
        return payload === "bytes" ? Outcome.bytes(new Uint8Array([1, 2]), "image/png") : attempt;
    };
    await using running = await worker();
    void running.task(callback, handle).run();
    const ended = async (payload: string) => {
        const { id } = await tasks.register({
            callback,
            payload,
            max_attempts: 2,
            retry: { initial: "100ms", max: "10s" },
        });
        return tasks.wait(id);
    };
    const thrown = await ended("throws");
    assert.deepEqual(
        [thrown.state, thrown.result, thrown.attempts?.[0]?.error],
        ["succeeded", 2, "cannot send: socket closed"],
    );
    const failed = await ended("fails");
    assert.deepEqual([failed.state, failed.attempt, failed.error], ["failed", 1, "there is no such user"]);
    const later = await ended("later");
    assert.ok(
        Date.parse(later.attempts?.[1]?.claim_time ?? "") - Date.parse(later.attempts?.[0]?.end_time ?? "") >= 300,
    );
    const snoozes = await ended("snoozes");
    assert.equal(snoozes.state, "succeeded", "three runs are one counted attempt and two snoozes");
    assert.ok((snoozed[2] ?? 0) - (snoozed[0] ?? 0) >= 200);
    const bytes = await ended("bytes");
    assert.deepEqual([bytes.result_base64, bytes.result_content_type], ["AQI=", "image/png"]);
});

test("results that cannot be kept fail their task with the reason", async () => {
    const tasks = await client();
    const callback = unique("results");
    await using running = await worker();
    void running.task(callback, ({ payload }) => (payload === "large" ? "x".repeat(1024 * 1024) : { n: 1n })).run();
    const large = await tasks.register({ callback, payload: "large" });
    await assert.rejects(tasks.result(large.id), /1048578 bytes and the limit is 1048576/);
    const odd = await tasks.register({ callback, payload: "odd" });
    await assert.rejects(tasks.result(odd.id), /its result is not JSON/);
});

test("large results travel in several reports", async () => {
    const tasks = await client();
    const callback = unique("large");
    await using running = await worker();
    void running.task(callback, ({ payload }) => `${payload}`.repeat(600_000)).run();
    const made = await Promise.all(["a", "b", "c", "d"].map((payload) => tasks.register({ callback, payload })));
    const results = await Promise.all(made.map(({ id }) => tasks.result(id)));
    assert.deepEqual(
        results.map((result) => String(result).length),
        [600_000, 600_000, 600_000, 600_000],
    );
});

test("heartbeats go on while a handler blocks the event loop", async () => {
    const tasks = await client();
    const callback = unique("blocks");
    await using running = await worker();
    void running
        .task(callback, ({ attempt }) => {
            const end = Date.now() + 4_500;
            while (Date.now() < end);
            return attempt;
        })
        .run();
    const task = await tasks.register({ callback, heartbeat_timeout: "3s" });
    const ended = await tasks.wait(task.id);
    assert.deepEqual([ended.state, ended.attempt], ["succeeded", 1]);
});

test("a note of progress is shown while the handler runs", async () => {
    const tasks = await client();
    const callback = unique("progress");
    await using running = await worker();
    let seen = false;
    void running
        .task(callback, async ({ progress }) => {
            progress({ done: 3, of: 10 });
            assert.throws(() => progress("x".repeat(5000)), RangeError);
            await until("it was read", () => seen);
        })
        .run();
    const task = await tasks.register({ callback, heartbeat_timeout: "3s" });
    const read = await until("it has a note", async () => (await tasks.get(task.id)).progress);
    seen = true;
    assert.deepEqual(read, { done: 3, of: 10 });
    assert.equal((await tasks.wait(task.id)).state, "succeeded");
});

test("a cancel reaches the handler through its signal", async () => {
    const tasks = await client();
    const callback = unique("cancelled");
    await using running = await worker();
    const reasons: string[] = [];
    void running
        .task(callback, async ({ signal }) => {
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
            reasons.push((signal.reason as TickwheelError).code);
            signal.throwIfAborted();
        })
        .run();
    const task = await tasks.register({ callback, heartbeat_timeout: "3s" });
    await until("it runs", async () => ["claimed", "processing"].includes((await tasks.get(task.id)).state));
    await tasks.cancel(task.id);
    assert.equal((await tasks.wait(task.id)).state, "cancelled");
    assert.deepEqual(reasons, ["cancelled"]);
});

test("a handler that never returns ends with its time limit, and its task is tried again", async () => {
    const tasks = await client();
    const callback = unique("hangs");
    await using running = await worker({ attemptTimeout: "300ms" });
    const codes: string[] = [];
    void running
        .task(callback, { concurrency: 1 }, ({ attempt, signal }) => {
            signal.addEventListener("abort", () => codes.push((signal.reason as TickwheelError).code));
            return attempt === 1 ? new Promise(() => {}) : "done";
        })
        .run();
    const task = await tasks.register({ callback, retry: { initial: "10ms", max: "10s" } });
    const ended = await tasks.wait(task.id);
    assert.deepEqual(
        [ended.result, ended.attempt, ended.attempts?.[0]?.error, codes],
        ["done", 2, "timed_out", ["timed_out"]],
    );
});

test("the time limit of a task wins over that of the worker", async () => {
    const tasks = await client();
    const callback = unique("limited");
    await using running = await worker();
    void running.task(callback, ({ attempt }) => (attempt === 1 ? new Promise(() => {}) : "done")).run();
    const task = await tasks.register({ callback, attempt_timeout: "1s", retry: { initial: "10ms", max: "10s" } });
    const began = performance.now();
    assert.equal((await tasks.wait(task.id)).result, "done");
    assert.ok(performance.now() - began < 5_000);
});

test("a callback runs as many tasks at once as it may, and does not hold up others", async () => {
    const tasks = await client();
    const [narrow, other] = [unique("narrow"), unique("other")];
    await using running = await worker();
    let [now, most] = [0, 0];
    void running
        .task(narrow, { concurrency: 2 }, async () => {
            most = Math.max(most, (now += 1));
            await pause(100);
            now -= 1;
        })
        .task(other, () => "at once")
        .run();
    const made = await Promise.all(Array.from({ length: 8 }, () => tasks.register({ callback: narrow })));
    const quick = await tasks.register({ callback: other });
    await tasks.result(quick.id);
    assert.ok(now > 0, "the others still run");
    await Promise.all(made.map(({ id }) => tasks.wait(id)));
    assert.equal(most, 2);
});

test("a worker that stops ends what runs, and gives back what does not end without counting an attempt", async () => {
    const tasks = await client();
    const [quick, slow] = [unique("quick"), unique("slow")];
    const running = await worker({ drainTimeout: 500 });
    let began = 0;
    const codes: string[] = [];
    void running
        .task(quick, async () => {
            began += 1;
            await pause(200);
            return "done";
        })
        .task(slow, ({ signal }) => {
            began += 1;
            return new Promise((_, reject) =>
                signal.addEventListener(
                    "abort",
                    () => (codes.push((signal.reason as TickwheelError).code), reject(signal.reason)),
                ),
            );
        })
        .run();
    const [ends, stays] = await Promise.all([
        tasks.register({ callback: quick }),
        tasks.register({ callback: slow, max_attempts: 1 }),
    ]);
    await until("both run", () => began === 2);
    await running.stop();
    assert.equal((await tasks.get(ends.id)).result, "done");
    const given = await tasks.get(stays.id);
    assert.deepEqual([given.state, given.attempts?.[0]?.outcome, codes], ["enqueued", "snoozed", ["stopping"]]);
    await using next = await worker();
    void next.task(slow, () => "by another").run();
    assert.equal((await tasks.wait(stays.id)).result, "by another", "its only attempt was not spent");
});

test("a worker whose places are all taken stops as well", async () => {
    const tasks = await client();
    const callback = unique("full");
    const running = await worker({ drainTimeout: 200, concurrency: 1 });
    let began = 0;
    void running.task(callback, () => ((began += 1), new Promise(() => {}))).run();
    const task = await tasks.register({ callback, max_attempts: 1 });
    await until("it runs", () => began === 1);
    const before = performance.now();
    await running.stop();
    assert.ok(performance.now() - before < 2_000);
    assert.equal((await tasks.get(task.id)).attempts?.[0]?.outcome, "snoozed");
});

test("a value that does not fit inside of a handler is an error of the handler, so it is tried again", async () => {
    const tasks = await client();
    const callback = unique("inside");
    await using running = await worker();
    const source = await tasks.register({ callback: unique("source"), delay: "1h" });
    void running
        .task(callback, async ({ attempt }) => {
            if (attempt === 1) throw new ValidationError("what it read", [{ path: "n", message: "is missing" }]);
            return (await tasks.get(source.id)).state;
        })
        .run();
    const task = await tasks.register({ callback, retry: { initial: "10ms", max: "10s" } });
    assert.equal(await tasks.result(task.id), "scheduled");
});

test("a follow-up gets the result of the task before", async () => {
    const tasks = await client();
    const [first, second] = [unique("first"), unique("second")];
    await using running = await worker();
    void running
        .task(first, () => ({ rows: 7 }))
        .task(second, ({ previous, payload }) => ({ previous: previous?.result, payload }))
        .run();
    const task = await tasks.register({
        callback: first,
        then: [{ task: { callback: second, payload: 1, labels: { of: "chain" } }, with_result: true }],
    });
    await tasks.wait(task.id);
    const [follower] = await until("it follows", async () => {
        const found = await tasks.list({ callback: second }).toArray();
        return found.length > 0 && found;
    });
    assert.deepEqual(await tasks.result(follower?.id ?? ""), { previous: { rows: 7 }, payload: 1 });
});

test("tasks of an ordering key run in the order of their registration", async () => {
    const tasks = await client();
    const callback = unique("ordered");
    await using running = await worker();
    const seen: unknown[] = [];
    void running.task(callback, ({ payload }) => void seen.push(payload)).run();
    const made = await Promise.all(
        Array.from({ length: 40 }, (_, payload) => tasks.register({ callback, payload, ordering_key: "one" })),
    );
    await Promise.all(made.map(({ id }) => tasks.wait(id)));
    assert.deepEqual(
        seen,
        Array.from({ length: 40 }, (_, place) => place),
    );
});

test("a worker that is put together wrongly says so before it runs", async () => {
    const running = await worker();
    assert.throws(() => running.run(), InvalidArgumentError);
    running.task("a", () => {});
    assert.throws(() => running.task("a", () => {}), /has a handler already/);
    assert.throws(() => running.task("b", { concurrency: 0 }, () => {}), /concurrency of 0/);
    assert.throws(() => running.task("b", { concurrency: 10_001 }, () => {}), /concurrency of 10001/);
    assert.throws(() => running.task("c", { attemptTimeout: "soon" }, () => {}), /attemptTimeout is not a duration/);
    assert.throws(() => new Worker("ftp://a"), InvalidArgumentError);
});
