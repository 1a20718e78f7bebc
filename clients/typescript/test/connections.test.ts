import assert from "node:assert/strict";
import { test } from "node:test";
import {
    Client,
    ConnectionError,
    NotFoundError,
    RefusedError,
    TimeoutError,
    UnavailableError,
    UnexpectedAnswerError,
    Worker,
} from "tickwheel";
import { Fake, facts, json, problem, registered } from "./fake.js";
import { Proxy } from "./proxy.js";
import { nowhere, shared, unique, until } from "./support.js";

/** Connections that are cut; ten thousand of them with `--all`. */
const CUTS = Number(process.env["TICKWHEEL_CUTS"] ?? 300);

test("connections that are cut behind the request make no task twice and lose none", { timeout: 600_000 }, async () => {
    await using proxy = new Proxy((await shared()).url);
    const tasks = new Client(await proxy.listen(), { timeout: 120_000 });
    const callback = unique("cut");
    let asked = 0;
    proxy.fate = (path) => (path.includes("tasks:batchCreate") && (asked += 1) % 2 === 0 ? "cut" : "pass");
    const ids: string[] = [];
    while (proxy.cuts < CUTS) {
        const made = await Promise.all(
            Array.from({ length: 4 }, (_, payload) => tasks.register({ callback, delay: "1h", payload })),
        );
        ids.push(...made.map(({ id }) => id));
    }
    proxy.fate = () => "pass";
    const found: string[] = [];
    for await (const task of tasks.list({ callback, page_size: 1000 })) found.push(task.id);
    assert.deepEqual(found.toSorted(), ids.toSorted());
});

test("a start that has passed is one task as well, after a lost answer", async () => {
    await using proxy = new Proxy((await shared()).url);
    const tasks = new Client(await proxy.listen());
    const callback = unique("passed");
    let asked = 0;
    proxy.fate = (path) => (path.includes("batchCreate") && (asked += 1) === 1 ? "cut" : "pass");
    const task = await tasks.register({ callback, start_time: new Date(Date.now() - 60_000) });
    assert.equal(proxy.cuts, 1);
    assert.deepEqual(
        (await tasks.list({ callback }).toArray()).map(({ id }) => id),
        [task.id],
    );
});

test("a task over HTTP is one task after a lost answer, with an id that the client made", async () => {
    await using proxy = new Proxy((await shared()).url);
    const tasks = new Client(await proxy.listen());
    let asked = 0;
    proxy.fate = (path) => (path.includes("batchCreate") && (asked += 1) === 1 ? "cut" : "pass");
    const http = { url: `http://${unique("host")}.example/hooks` };
    const task = await tasks.register({ http, delay: "1h" });
    assert.equal(proxy.cuts, 1);
    const callback = `http:${new URL(http.url).hostname}`;
    assert.deepEqual(
        (await tasks.list({ callback }).toArray()).map(({ id }) => id),
        [task.id],
    );
});

test("a tree is one tree after a lost answer", async () => {
    await using proxy = new Proxy((await shared()).url);
    const tasks = new Client(await proxy.listen());
    const callback = unique("tree");
    let asked = 0;
    proxy.fate = (path) => (path === "/v1/tasks" && (asked += 1) === 1 ? "cut" : "pass");
    const root = await tasks.register({ callback, delay: "1h", children: [{ callback }, { callback }] });
    assert.equal(proxy.cuts, 1);
    assert.equal((await tasks.tree(root.id)).nodes.length, 3);
    assert.equal((await tasks.list({ callback }).toArray()).length, 3);
});

test("a task that must not be sent twice fails with what is not known", async () => {
    await using fake = await new Fake(({ path }, response) =>
        path === "/v1/ids" ? json(response, 200, facts()) : response.destroy(),
    ).listen();
    const tasks = new Client(fake.url);
    await assert.rejects(tasks.register({ kafka: { topic: "reminders" }, delay: "1h" }), (error) => {
        assert.ok(error instanceof ConnectionError);
        assert.deepEqual([error.code, error.sent, error.retryable], ["connection_failed", true, true]);
        return true;
    });
    assert.equal(fake.asked.filter(({ path }) => path.includes("batchCreate")).length, 1);
});

test("a server that is away is a connection that failed before anything was sent", async () => {
    const tasks = new Client(await nowhere(), { timeout: 400 });
    await assert.rejects(
        tasks.get("x"),
        (error) => error instanceof ConnectionError && !error.sent && /ECONNREFUSED/.test(error.message),
    );
    await assert.rejects(new Client("http://127.0.0.1:9").get("x"), { code: "invalid_argument" });
});

test("a server that does not answer is a timeout", async () => {
    await using fake = await new Fake(() => {}).listen();
    const tasks = new Client(fake.url, { serverTimeout: 100, timeout: 400 });
    await assert.rejects(
        tasks.get("x"),
        (error) => error instanceof TimeoutError && error.code === "timeout" && error.sent,
    );
    assert.ok(fake.asked.length >= 2, "it was asked again within its time");
});

test("an answer that is not JSON names the server and quotes the answer", async () => {
    await using fake = await new Fake((_, response) => response.end("<html>It works!</html>")).listen();
    const tasks = new Client(fake.url);
    await assert.rejects(tasks.get("x"), (error) => {
        assert.ok(error instanceof UnexpectedAnswerError);
        assert.deepEqual([error.code, error.retryable], ["unexpected_answer", false]);
        assert.match(error.message, /It works!/);
        return error.message.includes(fake.url);
    });
    await assert.rejects(tasks.register({ callback: "x" }), UnexpectedAnswerError);
});

test("a redirect is not followed, so that payloads and keys go nowhere else", async () => {
    await using fake = await new Fake((_, response) =>
        json(response, 308, "", { location: "https://other.example/v1" }),
    ).listen();
    await assert.rejects(
        new Client(fake.url, { apiKey: "twk_secret" }).get("x"),
        /redirects to https:\/\/other\.example\/v1/,
    );
});

test("a storm of 429 is waited out as long as the service says", async () => {
    let refusals = 3;
    await using fake = await new Fake(({ path, body }, response) => {
        if (path === "/v1/ids") return json(response, 200, facts());
        refusals -= 1;
        if (refusals >= 0) return json(response, 429, problem(429, "too_many_requests", true), { "retry-after": "0" });
        return json(response, 200, registered(body));
    }).listen();
    const tasks = new Client(fake.url);
    await Promise.all(Array.from({ length: 50 }, () => tasks.register({ callback: "x" })));
    const sent = fake.asked.filter(({ path }) => path.includes("batchCreate"));
    assert.equal(sent.length, 4, "one request at a time, whatever the number of callers");
});

test("a wait that the service asks for is kept; one that is too long for the caller is its error", async () => {
    const times: number[] = [];
    await using fake = await new Fake((_, response) => {
        times.push(performance.now());
        if (times.length === 1) return json(response, 503, problem(503, "overloaded", true), { "retry-after": "1" });
        return json(response, 429, problem(429, "too_many_requests", true), { "retry-after": "60" });
    }).listen();
    const tasks = new Client(fake.url, { timeout: 5_000 });
    const began = performance.now();
    await assert.rejects(tasks.get("x"), (error) => {
        assert.ok(error instanceof UnavailableError);
        assert.deepEqual([error.code, error.retryable, error.retryAfter], ["too_many_requests", true, 60_000]);
        return true;
    });
    assert.ok((times[1] ?? 0) - (times[0] ?? 0) >= 990 && performance.now() - began < 4_000);
});

test("a single item that is refused for now is sent again, and the others are not", async () => {
    let round = 0;
    await using fake = await new Fake(({ path, body }, response) => {
        if (path === "/v1/ids") return json(response, 200, facts());
        const answer = registered(body);
        round += 1;
        if (round === 1) answer.results[1] = { error: problem(503, "overloaded", true) };
        return json(response, 200, answer);
    }).listen();
    const tasks = new Client(fake.url);
    const made = await Promise.all(["a", "b", "c"].map((callback) => tasks.register({ callback })));
    assert.equal(new Set(made.map(({ id }) => id)).size, 3);
    const sizes = fake.asked
        .filter(({ path }) => path.includes("batchCreate"))
        .map(({ body }) => JSON.parse(body).tasks.length);
    assert.deepEqual(sizes, [3, 1]);
});

test("a service of another version is used as far as it goes", async () => {
    await using fake = await new Fake(({ path, body }, response) => {
        if (path.includes("batchCreate")) {
            const answer = registered(body);
            return json(response, 200, { ...answer, of_a_later_version: true });
        }
        if (path.startsWith("/v1/tasks/")) return json(response, 200, { id: "x", state: "resting", novelty: {} });
        return json(response, 404, "no such page");
    }).listen();
    const tasks = new Client(fake.url);
    await tasks.register({ callback: "x", delay: "1h" });
    const { tasks: sent } = JSON.parse(fake.asked.at(-1)?.body ?? "");
    assert.match(sent[0].idempotency_key, /^tickwheel-ts-/, "it does not say what ids are made of, so it gets a mark");
    assert.deepEqual([sent[0].id, sent[0].delay], [undefined, "1h"]);
    assert.equal((await tasks.get("x")).state, "resting");
    await assert.rejects(tasks.schedules.list().toArray(), UnexpectedAnswerError);
});

test("a batch that is refused as a whole is sent item by item, so that the wrong one is found", async () => {
    await using fake = await new Fake(({ path, body }, response) => {
        if (path === "/v1/ids") return json(response, 200, facts());
        if (body.includes("wrong")) return json(response, 413, problem(413, "too_large", false));
        return json(response, 200, registered(body));
    }).listen();
    const tasks = new Client(fake.url);
    const made = await tasks.registerBatch(["a", "wrong", "b"].map((callback) => ({ callback })));
    assert.deepEqual(
        made.map(({ status }) => status),
        ["fulfilled", "rejected", "fulfilled"],
    );
    assert.ok(made[1]?.status === "rejected" && made[1].reason instanceof RefusedError);
});

test("a worker waits for the end of an outage, and answers that it cannot use are no end of it", async () => {
    const { url } = await shared();
    await using proxy = new Proxy(url);
    const callback = unique("outage");
    const said: string[] = [];
    let storm = true;
    const through: typeof fetch = async (input, init) => {
        const kind = said.length % 3;
        if (!storm) return fetch(input, init);
        said.push(String(input));
        if (kind === 0)
            throw new TypeError("fetch failed", {
                cause: Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }),
            });
        if (kind === 1) return new Response("<html>", { status: 200 });
        return new Response(JSON.stringify(problem(429, "too_many_requests", true)), {
            status: 429,
            headers: { "retry-after": "0" },
        });
    };
    await using running = new Worker(await proxy.listen(), {
        fetch: through,
        signals: false,
        logger: { warn: () => {}, error: () => {} },
    });
    void running.task(callback, () => "done").run();
    await until("it has met each failure", () => said.length >= 4);
    storm = false;
    const tasks = new Client(url);
    const task = await tasks.register({ callback });
    assert.equal(await tasks.result(task.id, { timeout: 20_000 }), "done");
});

test("a caller's time holds while the service is asked what ids are made of, and a wait ends in time as well", async () => {
    await using fake = await new Fake(() => {}).listen();
    const tasks = new Client(fake.url);
    const began = performance.now();
    await assert.rejects(tasks.register({ callback: "x" }, { timeout: 100 }), TimeoutError);
    const stop = AbortSignal.timeout(100);
    await assert.rejects(tasks.register({ callback: "x" }, { signal: stop }), { name: "TimeoutError" });
    await assert.rejects(tasks.wait("x", { timeout: 100 }), TimeoutError);
    assert.ok(performance.now() - began < 5_000);
});

test("a time without end is one", async () => {
    const tasks = new Client((await shared()).url);
    const task = await tasks.register(
        { callback: unique("endless"), delay: "1h" },
        { timeout: Number.POSITIVE_INFINITY },
    );
    assert.equal((await tasks.get(task.id, { timeout: Number.POSITIVE_INFINITY })).id, task.id);
    await assert.rejects(tasks.register({ callback: "x", start_time: new Date(Number.NaN) }), {
        code: "invalid_argument",
    });
    assert.throws(() => new Client("http://a", { headers: { "x-token": "a\nb" } }), { code: "invalid_argument" });
});

test("a report is repeated until it is answered, also by a service in the middle of an upgrade", async () => {
    const { url } = await shared();
    const callback = unique("upgrade");
    let upgrades = 0;
    const through: typeof fetch = async (input, init) => {
        if (!String(input).endsWith("/settle") || (upgrades += 1) > 2) return fetch(input, init);
        return new Response("<h1>Back soon</h1>", { status: 200 });
    };
    await using running = new Worker(url, { fetch: through, signals: false });
    void running.task(callback, ({ attempt }) => attempt).run();
    const tasks = new Client(url);
    const task = await tasks.register({ callback });
    assert.equal(await tasks.result(task.id), 1);
    assert.equal(upgrades, 3);
});

test("an unknown callback is a task that waits for its worker, and a question about it is a typed error", async () => {
    const tasks = new Client((await shared()).url);
    const callback = unique("unknown");
    await assert.rejects(
        tasks.callbacks.get(callback),
        (error) => error instanceof NotFoundError && error.code === "callback_not_found",
    );
    const task = await tasks.register({ callback });
    assert.equal(
        (await until("it is due", async () => (await tasks.get(task.id)).state === "enqueued" && tasks.get(task.id)))
            .attempt,
        0,
    );
    assert.equal((await tasks.cancel(task.id)).outcome, "cancelled");
});
