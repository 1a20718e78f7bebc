import { Backoff, sleep } from "../backoff.js";
import { milliseconds } from "../durations.js";
import { type Transport, readJson } from "../transport.js";
import type { Schemas } from "../types.js";
import type { Attempt, Handling } from "./attempt.js";
import { steady } from "./clock.js";
import type { Heart } from "./heart.js";
import { Running } from "./running.js";
import type { Settler } from "./settler.js";

/** How long a poll waits at the service: few requests, and within the idle limits of usual proxies. */
const POLL_WAIT = 30_000;
/** How long a server may take for a poll beside that. */
const POLL_SLACK = 10_000;
/** Tasks of one poll. */
const POLL_TASKS = 1000;
/** How long a poll may take to end when the worker stops; then its connection is dropped, and the service gives its tasks to others. */
const LEAVE_LIMIT = 2_000;

/** What all lanes of a worker share. */
export interface Tools {
    name: string;
    version: string | undefined;
    transport: Transport;
    heart: Heart;
    settler: Settler;
    attempts: Map<string, Attempt>;
    /** Aborted when the worker takes no further tasks. */
    stopping: AbortSignal;
    logger: Pick<Console, "warn" | "error">;
}

/** Polls for the tasks of one callback, as many as have a free place, and runs them. */
export class Lane {
    readonly #handling: Handling;
    readonly #tools: Tools;
    readonly #running: Running;
    /** Wakes a lane that has no free place. */
    #wake: () => void = () => {};

    constructor(handling: Handling, tools: Tools) {
        this.#handling = handling;
        this.#tools = tools;
        this.#running = new Running(handling, tools, () => this.#wake());
    }

    /** Polls until the worker stops. */
    async poll(): Promise<void> {
        const { stopping, logger } = this.#tools;
        const backoff = new Backoff();
        stopping.addEventListener("abort", () => this.#wake(), { once: true });
        while (!stopping.aborted) {
            const free = Math.min(POLL_TASKS, this.#running.free);
            if (free <= 0) {
                await new Promise<void>((resolve) => (this.#wake = resolve));
                continue;
            }
            const sent = steady();
            try {
                const answer = await this.#ask(free);
                backoff.succeeded();
                this.#begin(answer, sent, free);
            } catch (error) {
                if (stopping.aborted) return;
                const wait = backoff.next((error as { retryAfter?: number }).retryAfter);
                if (backoff.failures === 1)
                    logger.warn(`tickwheel: cannot poll for ${this.#handling.callback}, trying again: ${error}`);
                await sleep(wait, stopping).catch(() => {});
            }
        }
    }

    /** Waits for the attempts that run. */
    ended(): Promise<void> {
        return this.#running.ended();
    }

    /** Has nothing to give back. */
    async close(): Promise<void> {}

    /** When the worker stops, the poll is answered at once, since the worker leaves; no longer than `LEAVE_LIMIT`. */
    async #ask(max_tasks: number): Promise<Schemas["PollAnswer"]> {
        const { name, version, transport, stopping } = this.#tools;
        const late = new AbortController();
        let timer: NodeJS.Timeout | undefined;
        const leave = () => (timer = setTimeout(() => late.abort(new Error("the poll did not end")), LEAVE_LIMIT));
        stopping.addEventListener("abort", leave, { once: true });
        try {
            const request = {
                worker: name,
                callbacks: [this.#handling.callback],
                max_tasks,
                wait: `${POLL_WAIT}ms`,
                ...(version && { version }),
            };
            const call = {
                method: "POST",
                path: "/v1/worker/poll",
                body: JSON.stringify(request),
                repeatable: false,
                once: true,
            };
            const reply = await transport.send({
                ...call,
                wait: POLL_WAIT,
                timeout: POLL_WAIT + POLL_SLACK,
                signal: late.signal,
            });
            return readJson(reply);
        } finally {
            clearTimeout(timer);
            stopping.removeEventListener("abort", leave);
        }
    }

    #begin({ tasks, waited }: Schemas["PollAnswer"], sent: number, free: number): void {
        const leaseStart = sent + (milliseconds(waited ?? 0) ?? 0);
        this.#running.begin(tasks, leaseStart, free, () => {});
    }
}
