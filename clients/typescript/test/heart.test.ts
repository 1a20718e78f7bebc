import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import type * as Tickwheel from "tickwheel";
import { client, pause, shared, unique, until } from "./support.js";

const dist = fileURLToPath(new URL("../../dist/", import.meta.url));

interface Item {
    id: string;
    attempt: number;
}

interface Beats {
    take(message: { added?: (Item & { timeout: number; sent: number })[]; removed?: string[] }): void;
    stop(): void;
}

type Send = (tasks: Item[]) => Promise<{ results: { status: string }[] }>;

/** What sends the heartbeats is no part of what the package exports. */
async function beats(send: Send, tell: (key: string, told: string) => void): Promise<Beats> {
    const { Beats: Made } = (await import(join(dist, "worker/beats.js"))) as {
        Beats: new (send: Send, tell: (key: string, told: string) => void) => Beats;
    };
    return new Made(send, tell);
}

const now = (): number => Number(process.hrtime.bigint()) / 1e6;
const added = (count: number) =>
    Array.from({ length: count }, (_, place) => ({ id: `t${place}`, attempt: 1, timeout: 3_000, sent: now() }));

test("heartbeats are paced evenly: attempts that were claimed together do not beat together", async () => {
    const sizes: number[] = [];
    const counts = new Map<string, number>();
    const made = await beats(
        async (tasks) => {
            sizes.push(tasks.length);
            for (const { id } of tasks) counts.set(id, (counts.get(id) ?? 0) + 1);
            return { results: tasks.map(() => ({ status: "ok" })) };
        },
        (key, told) => assert.fail(`${key} is ${told}`),
    );
    made.take({ added: added(80) });
    await pause(3_300);
    made.stop();
    // Four beats of a timeout, each cut into eight steps. Some go together behind a pause of this machine, and never all.
    const usual = sizes.toSorted((one, other) => one - other)[Math.floor(sizes.length / 2)] ?? 80;
    assert.ok(usual <= 12 && Math.max(...sizes) <= 40, `at once: ${sizes}`);
    assert.equal(counts.size, 80);
    const each = [...counts.values()];
    assert.ok(Math.min(...each) >= 3 && Math.max(...each) <= 6, `${Math.min(...each)} to ${Math.max(...each)}`);
});

test("a lease that nothing extends is over before the service gives the task to another", async () => {
    const told: [string, number][] = [];
    const began = now();
    const made = await beats(
        () => Promise.reject(new Error("away")),
        (key, what) => told.push([`${key} ${what}`, now() - began]),
    );
    made.take({ added: added(1) });
    const [what, took] = await until("it is told", () => told[0]);
    assert.equal(what, "t0/1 expired");
    // Three quarters of its timeout, and before its end.
    assert.ok(took >= 2_250 && took < 3_000, `${took} ms`);
    made.stop();
});

test("an attempt that has ended beats no more, and one that is lost is told so once", async () => {
    const told: string[] = [];
    let asked = 0;
    const made = await beats(
        async (tasks) => {
            asked += tasks.length;
            return { results: tasks.map(() => ({ status: "lost" })) };
        },
        (key, what) => told.push(`${key} ${what}`),
    );
    made.take({ added: added(2) });
    made.take({ removed: ["t0/1"] });
    await pause(2_000);
    assert.deepEqual([told, asked], [["t1/1 lost"], 1]);
    made.stop();
});

test("without the file of its thread, as in a bundle, the heart goes on beside the handlers", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tickwheel-bundle-"));
    try {
        cpSync(dist, folder, { recursive: true });
        rmSync(join(folder, "worker", "heart-thread.js"));
        const { Worker } = (await import(join(folder, "index.js"))) as typeof Tickwheel;
        const said: string[] = [];
        const logger = { warn: () => {}, error: (text: string) => said.push(text) };
        const tasks = await client();
        const callback = unique("bundled");
        await using running = new Worker((await shared()).url, { signals: false, logger });
        void running.task(callback, ({ attempt }) => pause(4_500).then(() => attempt)).run();
        const task = await tasks.register({ callback, heartbeat_timeout: "3s" });
        assert.equal(await tasks.result(task.id), 1);
        assert.match(said.join(), /the thread of the heartbeats has ended/);
    } finally {
        rmSync(folder, { recursive: true });
    }
});
