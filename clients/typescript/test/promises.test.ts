// The table of promises that each package keeps, row by row: tests/clients/promises.json.
//
// TICKWHEEL_PROMISES_AT names services to ask, with commas between; without it a service of its own is asked.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, type Job, Outcome, Worker } from "tickwheel";
import { shared, until } from "./support.js";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Step = { [name: string]: Json };
type Answer = { [name: string]: unknown };

const rows = JSON.parse(readFileSync(new URL("../../../../tests/clients/promises.json", import.meta.url), "utf8")) as {
    promise: string;
    steps: Step[];
}[];
const PATIENCE = 40_000;

/** Tells whether what was read has at least what is expected. */
function within(value: unknown, part: Json | undefined): boolean {
    if (Array.isArray(part))
        return Array.isArray(value) && value.length === part.length && part.every((one, at) => within(value[at], one));
    if (part === null || typeof part !== "object") return value === part;
    if (value === null || typeof value !== "object") return false;
    return Object.entries(part).every(([name, inner]) => within((value as Answer)[name], inner));
}

/** The names and the worker of a row. */
class Table {
    readonly #server: string;
    readonly #client: Client;
    readonly #callback: string;
    readonly #ids = new Map<string, string>();
    readonly #runs = new Map<string, number>();
    readonly #stopped = new Set<string>();
    #worker: Worker | undefined;

    constructor(server: string, callback: string) {
        [this.#server, this.#client, this.#callback] = [server, new Client(server), callback];
    }

    /** Takes the steps, one behind the other. */
    async keep(steps: Step[]): Promise<void> {
        try {
            for (const step of steps) await this.#take(step);
        } finally {
            await this.#worker?.stop();
            await this.#client.close();
        }
    }

    async #take(step: Step): Promise<void> {
        const said = JSON.stringify(step);
        const call = () => this.#call(step);
        if (step.refused !== undefined) {
            await assert.rejects(call, { code: step.refused }, said);
            return;
        }
        const fits = (answer: unknown) => within(answer, this.#named(step.expect ?? {}));
        if (step.until !== undefined) {
            await until(said, async () => fits(await call()), PATIENCE);
            return;
        }
        const answer = await call();
        if (typeof step.as === "string") this.#ids.set(step.as, String((answer as Answer).id));
        if (step.expect !== undefined) assert.ok(fits(answer), `${said}: ${JSON.stringify(answer)}`);
    }

    /** The argument of a step, with ids in the place of names. */
    #named(value: Json): Json {
        if (Array.isArray(value)) return value.map((one) => this.#named(one));
        if (value !== null && typeof value === "object")
            return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.#named(one)]));
        if (value === "$callback") return this.#callback;
        return typeof value === "string" && value.startsWith("$") ? this.#id(value.slice(1)) : value;
    }

    #id(name: unknown): string {
        return this.#ids.get(String(name)) ?? String(name);
    }

    async #call(step: Step): Promise<unknown> {
        const [[verb, raw] = ["", null]] = Object.entries(step);
        const argument = this.#named(raw);
        const id = this.#id(raw);
        const [tasks, schedules, callback] = [this.#client, this.#client.schedules, this.#callback];
        const wait = (true_: () => boolean | Promise<boolean>) => until(JSON.stringify(step), true_, PATIENCE);
        switch (verb) {
            case "register":
                return tasks.register({ callback, ...(argument as object) });
            case "get":
            case "until":
                return tasks.get(id);
            case "wait":
                return tasks.wait(id, { timeout: PATIENCE });
            case "find":
                return tasks.key(callback, String(argument)).get();
            case "cancel_key":
                return tasks.key(callback, String(argument)).cancel();
            case "cancel":
                return tasks.cancel(id, step.tree === true ? { tree: true } : {});
            case "reschedule":
                return tasks.reschedule(id, { delay: String(step.delay) });
            case "run":
                return tasks.run(id);
            case "tree": {
                const states = (await tasks.tree(id)).nodes.map(({ state }) => state);
                return assert.deepEqual(states.sort(), [...(step.states as string[])].sort());
            }
            case "follower": {
                // Its id is known before it is there.
                const follower = (await tasks.get(id)).then?.[0]?.id ?? "";
                await wait(async () => (await tasks.list({ callback }).toArray()).some((one) => one.id === follower));
                return tasks.get(follower);
            }
            case "schedule":
                return schedules.set(callback, argument as Parameters<typeof schedules.set>[1]);
            case "trigger":
                return schedules.trigger(callback);
            case "pause_schedule":
                return schedules.pause(callback);
            case "resume_schedule":
                return schedules.resume(callback);
            case "delete_schedule":
                return schedules.delete(callback);
            case "runs": {
                const ended = async () =>
                    (await schedules.runs(callback).toArray()).filter(({ state }) => state === "succeeded");
                return wait(async () => (await ended()).length >= Number(argument));
            }
            case "settle":
                return this.#settle(id, step);
            case "running":
                return wait(() => this.#runs.has(id));
            case "stopped":
                return wait(() => this.#stopped.has(id));
            case "ran":
                return assert.equal(this.#runs.get(id) ?? 0, step.times);
            case "pause":
                return sleep(Number(argument) * 1000);
            case "start":
                return this.#start(Number(argument));
            case "stop":
                return this.#worker?.stop();
            default:
                throw new Error(`there is no step ${verb}`);
        }
    }

    /** Another program reports the end of the attempt, which is not the worker's any more then. */
    async #settle(id: string, { settle: _, ...fields }: Step): Promise<void> {
        const { worker } = await this.#client.get(id);
        const answer = await fetch(`${this.#server.split(",")[0]}/v1/worker/settle`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ worker, tasks: [{ id, ...fields }] }),
        });
        const { results } = (await answer.json()) as { results: { status: string }[] };
        assert.equal(results[0]?.status, "ok");
    }

    #start(concurrency: number): void {
        const silent = { warn: () => {}, error: () => {} };
        const options = { logger: silent, signals: false, concurrency, drainTimeout: "10s" as const };
        this.#worker = new Worker(this.#server, options);
        this.#worker.task(this.#callback, (job) => this.#handle(job));
        void this.#worker.run();
    }

    /** Does what the payload of a task says. */
    async #handle({ id, attempt, payload, previous, progress, signal, startTime }: Job): Promise<unknown> {
        const run = (this.#runs.get(id) ?? 0) + 1;
        this.#runs.set(id, run);
        const { do: deed, ...of } = payload as Step;
        const told = () => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        switch (deed) {
            case "return":
                return of.value;
            case "is_due":
                return Date.now() >= startTime.getTime();
            case "retry_once":
                return attempt === 1 ? Outcome.retry("not yet", { delay: "100ms" }) : attempt;
            case "raise_once":
                if (attempt === 1) throw new Error("it went wrong");
                return attempt;
            case "raise":
                throw new Error("it went wrong");
            case "fail":
                return Outcome.fail("no such user");
            case "snooze":
                return run <= Number(of.times) ? Outcome.snooze("50ms") : "done";
            case "progress":
                progress({ done: 40 });
                await sleep(Number(of.seconds) * 1000);
                return attempt;
            case "sleep":
                await sleep(Number(of.seconds) * 1000);
                return attempt;
            case "until_told":
                await told();
                return "told";
            case "hang":
                await told();
                this.#stopped.add(id);
                return attempt;
            case "previous":
                return previous?.result;
            default:
                return attempt;
        }
    }
}

for (const [at, { promise, steps }] of rows.entries())
    test(`the package keeps the promise: ${promise}`, async () => {
        const server = process.env.TICKWHEEL_PROMISES_AT ?? (await shared()).url;
        await new Table(server, `promise-${process.pid}-${at}`).keep(steps);
    });
