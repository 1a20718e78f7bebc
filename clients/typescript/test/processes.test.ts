import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startService } from "tickwheel/testing";
import { client, pause, shared, unique, until, worker } from "./support.js";

const started = new Set<ChildProcess>();
after(() => started.forEach((child) => child.kill("SIGKILL")));

/** A program of these tests as a process of its own. */
class Program {
    readonly lines: string[] = [];
    readonly child: ChildProcess;
    readonly #closed: Promise<unknown>;

    constructor(name: string, ...args: string[]) {
        this.child = spawn(
            process.execPath,
            [fileURLToPath(new URL(`programs/${name}.js`, import.meta.url)), ...args],
            { stdio: ["ignore", "pipe", "pipe"] },
        );
        started.add(this.child);
        this.#closed = once(this.child, "close");
        let rest = "";
        this.child.stdout?.setEncoding("utf8").on("data", (text: string) => {
            const lines = (rest + text).split("\n");
            rest = lines.pop() ?? "";
            this.lines.push(...lines);
        });
        this.child.stderr?.resume();
    }

    says(begin: string): Promise<string> {
        return until(
            `${begin} of ${this.lines.slice(-5).join(", ")}`,
            () => this.lines.find((line) => line.startsWith(begin)),
            20_000,
        );
    }

    /** Waits for its end, and for all that it has written. */
    async ended(): Promise<unknown> {
        await this.#closed;
        return this.child.signalCode ?? this.child.exitCode;
    }
}

test("SIGTERM under load spends no attempt", { timeout: 60_000 }, async () => {
    const tasks = await client();
    const callback = unique("load");
    const program = new Program("worker", (await shared()).url, callback, "20");
    await program.says("ready");
    // With one attempt each, a task whose attempt is spent is dead.
    const registering = Promise.all(Array.from({ length: 1000 }, () => tasks.register({ callback, max_attempts: 1 })));
    await until("many have begun", () => program.lines.length > 100);
    program.child.kill("SIGTERM");
    assert.equal(await program.ended(), 0);
    assert.equal(program.lines.at(-1), "stopped");
    const made = await registering;
    await using next = await worker();
    void next.task(callback, () => {}).run();
    const ended = await Promise.all(made.map(({ id }) => tasks.wait(id)));
    assert.deepEqual(new Set(ended.map(({ state }) => state)), new Set(["succeeded"]));
    const began = program.lines.filter((line) => line.startsWith("began")).map((line) => line.split(" ")[1]);
    const kept = ended.filter(({ result }) => result !== undefined && result !== null).map(({ id }) => id);
    assert.deepEqual(kept.toSorted(), began.toSorted(), "what had begun was ended and reported");
});

test("SIGTERM gives back what does not end in time, and spends no attempt", { timeout: 60_000 }, async () => {
    const tasks = await client();
    const callback = unique("drained");
    const program = new Program("worker", (await shared()).url, callback, "30000", "300ms");
    const task = await tasks.register({ callback, max_attempts: 1 });
    await program.says("began");
    program.child.kill("SIGTERM");
    await program.says("stopped");
    program.child.kill("SIGKILL");
    assert.ok(program.lines.includes(`aborted ${task.id} 1 stopping`));
    await using next = await worker();
    void next.task(callback, () => "by another").run();
    assert.equal(await tasks.result(task.id), "by another");
});

test("a second signal ends the process at once", { timeout: 60_000 }, async () => {
    const callback = unique("second");
    const program = new Program("worker", (await shared()).url, callback, "30000");
    await (await client()).register({ callback });
    await program.says("began");
    program.child.kill("SIGTERM");
    await pause(200);
    const began = performance.now();
    program.child.kill("SIGTERM");
    assert.equal(await program.ended(), "SIGTERM");
    assert.ok(performance.now() - began < 1_000);
});

test("a task of a worker that was killed runs again at its heartbeat timeout", { timeout: 60_000 }, async () => {
    const tasks = await client();
    const callback = unique("killed");
    const program = new Program("worker", (await shared()).url, callback, "30000");
    const task = await tasks.register({ callback, heartbeat_timeout: "3s" });
    await program.says("began");
    program.child.kill("SIGKILL");
    const began = performance.now();
    await using next = await worker();
    void next.task(callback, ({ attempt }) => attempt).run();
    assert.equal(await tasks.result(task.id), 2);
    const took = performance.now() - began;
    assert.ok(took > 1_000 && took < 5_000, `${took} ms`);
});

test("a worker that is frozen for less than its lease keeps it", { timeout: 60_000 }, async () => {
    const tasks = await client();
    const callback = unique("frozen");
    const program = new Program("worker", (await shared()).url, callback, "5500");
    const task = await tasks.register({ callback, heartbeat_timeout: "6s" });
    await program.says("began");
    program.child.kill("SIGSTOP");
    await pause(2_500);
    program.child.kill("SIGCONT");
    const ended = await tasks.wait(task.id);
    assert.deepEqual([ended.state, ended.attempt, ended.result], ["succeeded", 1, { by: program.child.pid }]);
    assert.ok(!program.lines.some((line) => line.startsWith("aborted")));
    program.child.kill("SIGKILL");
});

test("a worker that is frozen for longer is told so, and its handler is aborted", { timeout: 60_000 }, async () => {
    const tasks = await client();
    const callback = unique("lost");
    // With one place it does not poll meanwhile: a poll of a frozen worker would be handed the next attempt as well.
    const program = new Program("worker", (await shared()).url, callback, "30000", "20s", "1");
    const task = await tasks.register({ callback, heartbeat_timeout: "3s" });
    await program.says("began");
    program.child.kill("SIGSTOP");
    await using next = await worker();
    void next.task(callback, ({ attempt }) => attempt).run();
    assert.equal(await tasks.result(task.id), 2);
    program.child.kill("SIGCONT");
    assert.equal(await program.says("aborted"), `aborted ${task.id} 1 lease_lost`);
    assert.equal((await tasks.get(task.id)).result, 2);
    program.child.kill("SIGKILL");
});

test("services of tests leave nothing behind", { timeout: 60_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "tickwheel-left-"));
    process.env["TMPDIR"] = folder;
    try {
        for (let round = 0; round < 5; round += 1) {
            const services = await Promise.all([startService(), startService()]);
            await Promise.all(services.map((service) => service.stop()));
        }
    } finally {
        delete process.env["TMPDIR"];
    }
    await pause(300);
    assert.deepEqual(readdirSync(folder), []);
    rmdirSync(folder);
});

test("a service of a test ends with it, also when the test is killed", { timeout: 60_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "tickwheel-killed-"));
    process.env["TMPDIR"] = folder;
    const program = new Program("service");
    delete process.env["TMPDIR"];
    const [, url = ""] = (await program.says("service")).split(" ");
    assert.ok((await fetch(`${url}/livez`)).ok);
    assert.equal(readdirSync(folder).length, 1);
    program.child.kill("SIGKILL");
    await until("its service has ended", () => readdirSync(folder).length === 0);
    await assert.rejects(fetch(`${url}/livez`));
    rmdirSync(folder);
});
