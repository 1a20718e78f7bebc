import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { sleep } from "./backoff.js";
import { Client, type ClientOptions } from "./index.js";
import { durationText, readDuration } from "./durations.js";
import { TickwheelError } from "./errors.js";
import type { Duration } from "./types.js";

/** How long the service may take to start. */
const START = 30_000;
/** How long it may take to end in order; then it is killed. */
const STOP = 10;

/**
 * Guards a service: it ends it, and removes its directory, when the standard input of the guard is closed. That happens also
 * when the test is killed, since the system then closes its pipes.
 */
const GUARD = `
program=$1 listen=$2 folder=$3 clock=$4
exec 2>/dev/null
trap '' INT TERM HUP
"$program" dev $clock --listen "$listen" --data-dir "$folder/data" </dev/null >/dev/null 2>"$folder/log" &
service=$!
(while kill -0 $service 2>/dev/null; do sleep 0.1; done; echo "(ended)" >>"$folder/log") </dev/null >/dev/null 2>&1 &
watch=$!
cat >/dev/null
kill -TERM $service 2>/dev/null
tenths=0
while kill -0 $service 2>/dev/null && [ $tenths -lt ${STOP * 10} ]; do sleep 0.1; tenths=$((tenths + 1)); done
kill -KILL $service 2>/dev/null
# A line that is written meanwhile would keep the directory.
kill -KILL $watch
wait $watch
rm -rf "$folder"
`;

export interface ServiceOptions {
    /** The program; that of `TICKWHEEL_BIN` by default, else `tickwheel` of the PATH. */
    program?: string | undefined;
    /** Where it listens; a free port of this machine by default. */
    listen?: string | undefined;
    /** Whether its clock can be moved; it can by default. If not, concurrent registrations take less time. */
    testClock?: boolean | undefined;
}

/** What happened while the clock was moved. */
export interface Advanced {
    /** The time that the clock shows. */
    reached: Date;
    /** Tasks that were handed out for the first time. */
    fired: number;
    /** Attempts that did not end in time, and tasks that their workers did not take in time. They go on. */
    unsettled: number;
    /** Tasks that are due, and that no worker asks for. */
    waiting: number;
}

/** How long one call that moves the clock may take. */
const MOVE = 120_000;

/** A service of a test, with a directory of its own. It ends with its block, or with the test, however that ends. */
export class Service implements AsyncDisposable {
    /** Its address. */
    readonly url: string;
    readonly #end: () => Promise<void>;

    /** @internal */
    constructor(url: string, end: () => Promise<void>) {
        this.url = url;
        this.#end = end;
    }

    /** Makes a client of the service. */
    client(options?: ClientOptions): Client {
        return new Client(this.url, options);
    }

    /** Returns the time that its clock shows: times in tests are counted from it. */
    async now(): Promise<Date> {
        return new Date((await this.client().call("getTestClock", {})).time);
    }

    /**
     * Moves its clock forward, and stops at each due time on the way: starts, retries, schedules, expiries, deadlines. At each
     * stop it waits until workers have done what came due, `settleWithin` at most: 5 s of real time by default. So nothing is
     * late, and what handlers register on the way takes part.
     *
     * ```ts
     * await service.advance("3d");
     * ```
     */
    async advance(by: Duration, options: { settleWithin?: Duration } = {}): Promise<Advanced> {
        const client = this.client();
        const way = readDuration(by, "the way of the clock");
        const to = new Date((await this.now()).getTime() + way).toISOString();
        const { settleWithin } = options;
        const body = settleWithin === undefined ? { to } : { to, settle_within: durationText(settleWithin) };
        let [fired, unsettled] = [0, 0];
        for (;;) {
            const answer = await client.call("advanceTestClock", { body }, { timeout: MOVE });
            fired += answer.fired;
            unsettled += answer.unsettled;
            const { reached, waiting } = answer;
            if (answer.done) return { reached: new Date(reached), fired, unsettled, waiting };
        }
    }

    /** Moves its clock forward at once, as if it had been off meanwhile: what came due is late then. */
    async jump(to: Date): Promise<void> {
        await this.client().call("setTestClock", { body: { time: to.toISOString() } });
    }

    /** Ends the service, and removes its directory. */
    async stop(): Promise<void> {
        await this.#end();
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.stop();
    }
}

/**
 * Starts a whole service for a test.
 *
 * ```ts
 * await using service = await startService();
 * const client = service.client();
 * ```
 */
export async function startService(options: ServiceOptions = {}): Promise<Service> {
    const program = options.program ?? findProgram();
    const folder = await mkdtemp(join(tmpdir(), "tickwheel-test-"));
    const log = join(folder, "log");
    const clock = (options.testClock ?? true) ? "--test-clock" : "";
    // A group of its own, so that Ctrl-C reaches the test first and the guard ends the service behind it.
    const guard = spawn(
        "sh",
        ["-c", GUARD, "tickwheel-guard", program, options.listen ?? "127.0.0.1:0", folder, clock],
        {
            stdio: ["pipe", "ignore", "ignore"],
            detached: true,
        },
    );
    guard.stdin?.on("error", () => {});
    guard.unref();
    (guard.stdin as unknown as { unref?: () => void } | null)?.unref?.();
    const until = performance.now() + START;
    for (;;) {
        const text = await readFile(log, "utf8").catch(() => "");
        const url = /ready on (http:\S+)/.exec(text)?.[1];
        if (url) return new Service(url, () => ended(guard));
        if (text.endsWith("(ended)\n") || performance.now() > until) {
            await ended(guard);
            await rm(folder, { recursive: true, force: true });
            throw new TickwheelError(
                "service_not_started",
                `${program} did not start: ${text.replace("(ended)", "").trim() || "it wrote nothing"}`,
                false,
            );
        }
        await sleep(20);
    }
}

async function ended(guard: ChildProcess): Promise<void> {
    if (guard.exitCode !== null || guard.signalCode !== null) return;
    guard.ref();
    const exit = new Promise((resolve) => guard.once("exit", resolve));
    guard.stdin?.end();
    await exit;
}

/** Returns the program that TICKWHEEL_BIN names, or the first one of the PATH. */
export function findProgram(): string {
    const named = process.env["TICKWHEEL_BIN"];
    const places = named
        ? [named]
        : (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, "tickwheel"));
    const found = places.find((place) => {
        try {
            accessSync(place, constants.X_OK);
            return true;
        } catch {
            return false;
        }
    });
    if (found) return found;
    const where = named
        ? `TICKWHEEL_BIN names ${named}, which is no program`
        : "there is no program tickwheel on the PATH";
    throw new TickwheelError("no_program", `${where}: set TICKWHEEL_BIN to the program of the service`, false);
}
