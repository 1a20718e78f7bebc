import assert from "node:assert/strict";
import { test } from "node:test";
import {
    Client,
    InvalidArgumentError,
    NotFoundError,
    RefusedError,
    TaskNotSucceededError,
    TimeoutError,
    hasEnded,
} from "tickwheel";
import { client, nowhere, shared, unique, until, worker } from "./support.js";

test("a registered task is read with its payload", async () => {
    const tasks = await client();
    const task = await tasks.register({
        callback: unique("read"),
        delay: "1h",
        payload: { name: "Ada", bytes: [1, 2] },
        labels: { team: "mail" },
    });
    assert.equal(task.state, "scheduled");
    assert.equal(task.outcome, "created");
    const read = await tasks.get(task.id);
    assert.deepEqual(read.payload, { name: "Ada", bytes: [1, 2] });
    assert.deepEqual(read.labels, { team: "mail" });
    assert.equal(hasEnded(read), false);
});

test("times and durations are given as JavaScript has them", async () => {
    const tasks = await client();
    const at = new Date(Date.now() + 3_600_000);
    const dated = await tasks.register({
        callback: unique("dated"),
        start_time: at,
        retention: 3_600_000,
        attempt_timeout: "1h 30m",
    });
    const read = await tasks.get(dated.id);
    assert.equal(new Date(read.start_time).getTime(), at.getTime());
    assert.equal(read.retention, "1h");
    assert.equal(read.attempt_timeout, "1h 30m");
    const before = Date.now();
    const delayed = await tasks.register({ callback: unique("delayed"), delay: 5_000 });
    const start = new Date(delayed.start_time).getTime();
    assert.ok(start >= before + 5_000 && start < Date.now() + 6_000, delayed.start_time);
});

test("bytes are a payload", async () => {
    const tasks = await client();
    const task = await tasks.register({ callback: unique("bytes"), delay: "1h", payload: new Uint8Array([255, 0, 7]) });
    assert.equal((await tasks.get(task.id)).payload_base64, "/wAH");
});

test("the same registration is one task, whether the client or the program names it", async () => {
    const tasks = await client();
    const callback = unique("twice");
    const first = await tasks.register({ callback, delay: "1h", idempotency_key: callback });
    const second = await tasks.register({ callback, delay: "1h", idempotency_key: callback });
    assert.deepEqual([second.id, second.outcome], [first.id, "existing"]);
});

test("a key names at most one live task", async () => {
    const tasks = await client();
    const callback = unique("keyed");
    const task = await tasks.register({ callback, key: "order-17", delay: "1h" });
    await assert.rejects(tasks.register({ callback, key: "order-17", delay: "1h" }), (error) => {
        assert.ok(error instanceof RefusedError);
        assert.deepEqual(
            [error.code, error.status, error.retryable, error.problem.existing],
            ["key_taken", 409, false, task.id],
        );
        return true;
    });
    const replaced = await tasks.register({ callback, key: "order-17", delay: "2h", on_conflict: "replace" });
    assert.equal(replaced.outcome, "replaced");
    const keyed = tasks.key(callback, "order-17");
    assert.equal((await keyed.get())?.id, replaced.id);
    assert.equal((await keyed.reschedule({ delay: "3h" })).outcome, "rescheduled");
    assert.equal((await keyed.cancel()).outcome, "cancelled");
    assert.equal(await tasks.key(callback, "none").get(), undefined);
    await assert.rejects(tasks.key(callback, "none").run(), { code: "key_not_found" });
});

test("a task is moved, started now and cancelled; an answer says what won", async () => {
    const tasks = await client();
    const callback = unique("moved");
    const task = await tasks.register({ callback, delay: "1h" });
    const at = new Date(Date.now() + 7_200_000);
    assert.equal((await tasks.reschedule(task.id, { start_time: at })).task.start_time, at.toISOString());
    assert.equal((await tasks.reschedule(task.id, { delay: 3_600_000 })).outcome, "rescheduled");
    assert.equal((await tasks.run(task.id)).outcome, "rescheduled");
    const other = await tasks.register({ callback, delay: "1h" });
    assert.equal((await tasks.cancel(other.id)).outcome, "cancelled");
    assert.equal((await tasks.cancel(other.id)).outcome, "already_cancelled");
});

test("batches have a result for each of their items", async () => {
    const tasks = await client();
    const callback = unique("batch");
    const good = { callback, delay: "1h" };
    const made = await tasks.registerBatch([good, { delay: "1h" }, good]);
    assert.deepEqual(
        made.map(({ status }) => status),
        ["fulfilled", "rejected", "fulfilled"],
    );
    const ids = made.flatMap((one) => (one.status === "fulfilled" ? [one.value.id] : []));
    const cancelled = await tasks.cancelBatch([...ids, "019a9d5a-0000-8000-8000-000000000007"]);
    assert.deepEqual(
        cancelled.map(({ status }) => status),
        ["fulfilled", "fulfilled", "rejected"],
    );
    assert.ok(cancelled[2]?.status === "rejected" && cancelled[2].reason instanceof NotFoundError);
});

test("a list goes over all pages", async () => {
    const tasks = await client();
    const callback = unique("list");
    await tasks.registerBatch(
        Array.from({ length: 25 }, (_, place) => ({
            callback,
            delay: `${place + 1}h`,
            labels: { even: `${place % 2 === 0}` },
        })),
    );
    const starts: string[] = [];
    for await (const task of tasks.list({ callback, page_size: 10 })) starts.push(task.start_time);
    assert.equal(starts.length, 25);
    assert.deepEqual(starts, starts.toSorted());
    assert.equal((await tasks.list({ callback, labels: { even: "true" } }).toArray()).length, 13);
    assert.equal((await tasks.list({ callback, page_size: 4 }).toArray(7)).length, 7);
    let pages = 0;
    for await (const page of tasks.list({ callback, page_size: 10 }).pages()) pages += page.length > 0 ? 1 : 0;
    assert.ok(pages >= 3);
});

test("a caller waits for the end of a task, up to its limit", async () => {
    const tasks = await client();
    const callback = unique("waited");
    const task = await tasks.register({ callback, delay: "1h" });
    await assert.rejects(tasks.wait(task.id, { timeout: 100 }), TimeoutError);
    const waiting = assert.rejects(
        tasks.result(task.id),
        (error) => error instanceof TaskNotSucceededError && error.task.state === "cancelled",
    );
    await tasks.cancel(task.id);
    await waiting;
    const signal = AbortSignal.timeout(50);
    const other = await tasks.register({ callback, delay: "1h" });
    await assert.rejects(tasks.wait(other.id, { signal }), { name: "TimeoutError" });
});

test("a tree ends when all its tasks have ended", async () => {
    const tasks = await client();
    const [parent, child] = [unique("parent"), unique("child")];
    await using running = await worker();
    void running
        .task(parent, () => "root")
        .task(child, ({ payload }) => payload)
        .run();
    const root = await tasks.register({
        callback: parent,
        children: [
            { callback: child, payload: 1, after_parent: true },
            { callback: child, payload: 2, delay: 100 },
        ],
    });
    const nodes = await until("the tree is completed", async () => {
        const tree = await tasks.tree(root.id);
        return tree.nodes[0]?.tree_state === "completed" && tree.nodes;
    });
    assert.equal(nodes.length, 3);
    const waiting = await tasks.register({
        callback: parent,
        delay: "1h",
        children: [{ callback: child, delay: "1h" }],
    });
    const cancelled = await tasks.cancel(waiting.id, { tree: true });
    assert.equal(cancelled.outcome, "cancelled");
});

test("the failed tasks of a tree run again", async () => {
    const tasks = await client();
    const callback = unique("again");
    let healthy = false;
    await using running = await worker();
    void running.task(callback, () => assert.ok(healthy, "not yet")).run();
    const root = await tasks.register({ callback, max_attempts: 1, children: [{ callback, max_attempts: 1 }] });
    const state = async (wanted: string) => (await tasks.tree(root.id)).nodes[0]?.tree_state === wanted;
    await until("it is faulted", () => state("faulted"));
    healthy = true;
    assert.equal((await tasks.retryFailed(root.id)).retried, 2);
    await until("it is completed", () => state("completed"));
});

test("schedules start tasks at their times", async () => {
    const tasks = await client();
    const name = unique("schedule");
    const body = { every: "1s", task: { callback: name, payload: { kind: "daily" } } };
    assert.equal((await tasks.schedules.check({ ...body, every: "1h" }, { count: 3 })).run_times.length, 3);
    await using running = await worker();
    const times: (Date | undefined)[] = [];
    void running.task(name, ({ schedule, scheduledTime }) => schedule === name && times.push(scheduledTime)).run();
    await tasks.schedules.set(name, body);
    await until("it has run twice", () => times.length >= 2);
    assert.ok(times[0] instanceof Date && times[1] instanceof Date && times[1].getTime() - times[0].getTime() === 1000);
    assert.equal((await tasks.schedules.pause(name, "for a test")).state, "paused");
    assert.equal((await tasks.schedules.resume(name)).state, "live");
    assert.equal((await tasks.schedules.trigger(name)).outcome, "created");
    assert.ok((await tasks.schedules.runs(name).toArray()).length >= 2);
    assert.ok((await tasks.schedules.list().toArray()).some((schedule) => schedule.name === name));
    await tasks.schedules.delete(name);
    await assert.rejects(tasks.schedules.get(name), NotFoundError);
});

test("callbacks are set, paused and resumed", async () => {
    const tasks = await client();
    const name = unique("configured");
    await assert.rejects(
        tasks.callbacks.get(name),
        (error) => error instanceof NotFoundError && error.code === "callback_not_found",
    );
    assert.equal((await tasks.callbacks.set(name, { max_attempts: 3, rate: { per_second: 50 } })).max_attempts, 3);
    assert.equal(
        (await tasks.callbacks.pause(name, { reason: "it moves", until: new Date(Date.now() + 60_000) })).gate,
        "paused",
    );
    assert.equal((await tasks.callbacks.resume(name)).gate, "open");
    assert.ok((await tasks.callbacks.list().toArray()).some((callback) => callback.name === name));
    assert.equal(await tasks.callbacks.delete(name), undefined);
});

test("dead letters are found and run again, and jobs change many tasks", async () => {
    const tasks = await client();
    const callback = unique("dead");
    let healthy = false;
    await using running = await worker();
    void running.task(callback, () => assert.ok(healthy, "connection refused")).run();
    const task = await tasks.register({ callback, max_attempts: 1 });
    await assert.rejects(tasks.result(task.id), /dead: connection refused/);
    // A letter is filed right behind the end that it is of.
    const letters = (): Promise<{ id: string }[]> => tasks.deadLetters.list({ callback }).toArray();
    await until("it has a letter", async () => (await letters())[0]?.id === task.id);
    assert.equal((await tasks.deadLetters.groups({ callback }))[0]?.tasks, 1);
    healthy = true;
    await tasks.deadLetters.redrive({ ids: [task.id] });
    assert.equal((await tasks.wait(task.id)).state, "succeeded");
    const waiting = await tasks.register({ callback, delay: "1h" });
    const job = await tasks.jobs.create({ kind: "cancel", filter: { callback } });
    await until("the job has ended", async () => (await tasks.jobs.get(job.id)).state === "completed");
    assert.equal((await tasks.get(waiting.id)).state, "cancelled");
    assert.ok((await tasks.jobs.list().toArray()).some(({ id }) => id === job.id));
});

test("errors name code, field and trace id", async () => {
    const tasks = await client();
    await assert.rejects(tasks.register({ callback: "x", delay: "soon" }), (error) => {
        assert.ok(error instanceof RefusedError);
        assert.deepEqual(
            [error.code, error.status, error.field, error.retryable],
            ["invalid_request", 400, "/delay", false],
        );
        assert.match(error.traceId ?? "", /^[0-9a-f]{32}$/);
        assert.match(error.message, /soon/);
        return true;
    });
    await assert.rejects(
        tasks.get("01a224f3-ff5f-8001-8f38-998015354c13"),
        (error) => error instanceof NotFoundError && error.code === "task_not_found",
    );
    await assert.rejects(tasks.register({ callback: "x", payload: 1n }), InvalidArgumentError);
    await assert.rejects(tasks.register({ callback: "x", delay: -1 }), InvalidArgumentError);
    assert.throws(() => new Client("ftp://a"), InvalidArgumentError);
    assert.throws(() => new Client(""), InvalidArgumentError);
    assert.throws(
        () => new Client("http://a", { apiKey: "secret" }),
        (error: Error) => !error.message.includes("secret"),
    );
});

test("a call ends with the signal of its caller", async () => {
    const tasks = await client();
    const reason = new Error("no longer of interest");
    await assert.rejects(tasks.register({ callback: "x" }, { signal: AbortSignal.abort(reason) }), reason);
    const stop = new AbortController();
    const task = await tasks.register({ callback: unique("aborted"), delay: "1h" });
    const waiting = tasks.wait(task.id, { signal: stop.signal });
    setTimeout(() => stop.abort(reason), 30);
    await assert.rejects(waiting, reason);
});

test("a client that is closed has registered what it was given", async () => {
    const { url } = await shared();
    const callback = unique("closed");
    const registered: Promise<unknown>[] = [];
    {
        await using tasks = new Client(url);
        for (let count = 0; count < 500; count += 1) registered.push(tasks.register({ callback, delay: "1h" }));
    }
    await Promise.all(registered);
    const tasks = new Client([url]);
    assert.equal((await tasks.list({ callback, page_size: 1000 }).toArray()).length, 500);
    await tasks.close();
    await assert.rejects(tasks.register({ callback }), /closed/);
});

test("the next server is asked when one is away", async () => {
    const { url } = await shared();
    const tasks = new Client([await nowhere(), url]);
    assert.equal((await tasks.register({ callback: unique("failover"), delay: "1h" })).state, "scheduled");
});
