import { TIMER_MAX } from "../backoff.js";
import { TickwheelError, ValidationError } from "../errors.js";
import { Outcome } from "../outcome.js";
import { bytes, toJson } from "../tasks.js";
import { consuming } from "../tracing.js";
import type { ClaimedTask } from "../types.js";
import { type StandardSchema, validated } from "../standard-schema.js";
import { type Told, keyOf } from "./beats.js";
import type { Job } from "./job.js";

/** How long behind its lease a report is still repeated: if the task is still unclaimed, the report counts. */
const GRACE = 30_000;
/** Bytes of a progress note. */
const PROGRESS_BYTES = 4096;

/** How tasks of a callback are run. */
export interface Handling {
    callback: string;
    handler: (job: Job<never>) => unknown;
    payload: StandardSchema | undefined;
    result: StandardSchema | undefined;
    concurrency: number;
    /** In milliseconds. */
    attemptTimeout: number;
}

const TEXTS: Readonly<Record<string, string>> = {
    lease_lost: "another attempt of the task may run by now",
    cancelled: "somebody cancelled the task",
    timed_out: "the attempt took too long",
    stopping: "the worker stops",
};

/** An `AbortController` that is made once somebody asks for its signal, which most handlers do not. */
class Latch {
    #controller: AbortController | undefined;
    #reason: TickwheelError | undefined;

    get signal(): AbortSignal {
        this.#controller ??= new AbortController();
        if (this.#reason) this.#controller.abort(this.#reason);
        return this.#controller.signal;
    }

    abort(reason: TickwheelError): void {
        this.#reason ??= reason;
        this.#controller?.abort(this.#reason);
    }
}

/** A running attempt: its handler, and the reasons to stop it. */
export class Attempt {
    readonly task: ClaimedTask;
    readonly key: string;
    readonly #handling: Handling;
    readonly #useless = new Latch();
    readonly #stop = new Latch();
    readonly #progress: (key: string, json: string) => void;
    #end: (outcome: Outcome | undefined) => void = () => {};

    constructor(task: ClaimedTask, handling: Handling, progress: (key: string, json: string) => void) {
        this.task = task;
        this.key = keyOf(task);
        this.#handling = handling;
        this.#progress = progress;
    }

    /** Runs the handler. Returns the outcome to report, or undefined when another attempt may run by now. */
    async run(limit: number): Promise<Outcome | undefined> {
        const ended = new Promise<Outcome | undefined>((resolve) => (this.#end = resolve));
        const timer = setTimeout(() => this.abort("timed_out", Outcome.retry("timed_out")), Math.min(limit, TIMER_MAX));
        void this.#outcome().then(this.#end);
        try {
            return await ended;
        } finally {
            clearTimeout(timer);
        }
    }

    /** Does what the heartbeats say. */
    told(told: Told): void {
        if (told === "cancelled") return this.#stop.abort(reason("cancelled"));
        this.abort("lease_lost", undefined);
        setTimeout(() => this.#useless.abort(reason("lease_lost")), GRACE).unref();
    }

    /** Aborted once a report of the attempt is of no use. */
    get useless(): AbortSignal {
        return this.#useless.signal;
    }

    /** Tells the handler to stop, and no longer waits for it. */
    abort(code: string, outcome: Outcome | undefined): void {
        this.#stop.abort(reason(code));
        this.#end(outcome);
    }

    /** A payload or a result that does not fit now does not fit the next time. An error of the handler is a retry. */
    async #outcome(): Promise<Outcome> {
        const { callback, handler, payload, result } = this.#handling;
        const { id, attempt, traceparent } = this.task;
        const attributes = { "tickwheel.task.id": id, "tickwheel.callback": callback, "tickwheel.attempt": attempt };
        try {
            const given = payload ? await validated(payload, content(this.task), "the payload") : content(this.task);
            if (given instanceof ValidationError) return Outcome.fail(given);
            const job = this.#job(given) as Job<never>;
            const returned = await consuming(`${callback} process`, traceparent, attributes, async () => handler(job));
            if (!result || returned instanceof Outcome) return Outcome.of(returned);
            const checked = await validated(result, returned, "the result");
            return checked instanceof ValidationError ? Outcome.fail(checked) : Outcome.of(checked);
        } catch (error) {
            return Outcome.ofError(error);
        }
    }

    #job(payload: unknown): Job {
        const task = this.task;
        const stop = this.#stop;
        return {
            id: task.id,
            attempt: task.attempt,
            maxAttempts: task.max_attempts,
            callback: task.callback,
            payload,
            startTime: new Date(task.start_time),
            labels: task.labels ?? {},
            previous: task.previous ?? undefined,
            dependencies: task.dependencies ?? [],
            schedule: task.schedule ?? undefined,
            scheduledTime: task.scheduled_time ? new Date(task.scheduled_time) : undefined,
            task,
            get signal() {
                return stop.signal;
            },
            progress: (note) => {
                const json = toJson(note);
                const size = new TextEncoder().encode(json).byteLength;
                if (size > PROGRESS_BYTES)
                    throw new RangeError(`a progress note of ${size} bytes exceeds ${PROGRESS_BYTES}`);
                this.#progress(this.key, json);
            },
        };
    }
}

function reason(code: string): TickwheelError {
    return new TickwheelError(code, TEXTS[code] ?? code, code !== "cancelled");
}

function content({ payload, payload_base64 }: ClaimedTask): unknown {
    return payload_base64 ? bytes(payload_base64) : payload;
}
