import { sleep } from "./backoff.js";
import { readDuration } from "./durations.js";
import { InvalidArgumentError } from "./errors.js";
import { type ClientOptions, access } from "./access.js";
import { Outcome } from "./outcome.js";
import type { KafkaSource } from "./kafka.js";
import type { KafkaLane } from "./kafka/lane.js";
import type { StandardSchema } from "./standard-schema.js";
import { tracingReady } from "./tracing.js";
import { Transport } from "./transport.js";
import type { Duration } from "./types.js";
import type { Attempt, Handling } from "./worker/attempt.js";
import { Heart } from "./worker/heart.js";
import type { Job } from "./worker/job.js";
import { Lane, type Tools } from "./worker/lane.js";
import { Settler } from "./worker/settler.js";

/** Tasks of one callback that run at once. */
const CONCURRENCY = 64;
/** Most tasks of one callback that run at once: each holds a payload of up to a megabyte. */
const CONCURRENCY_MAX = 10_000;
/** How long handlers may take to end when the worker stops: within the 30 s that Kubernetes grants. */
const DRAIN_TIMEOUT = 20_000;
/** How long an attempt may take: longer than nearly all handlers need, and short enough that one that hangs is noticed. */
const ATTEMPT_TIMEOUT = 600_000;
/** How long the last reports may take. */
const LAST_REPORTS = 10_000;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

export interface WorkerOptions extends ClientOptions {
    /** The name of the worker, for people; by default host, process and a random part. */
    name?: string | undefined;
    /** The version of the program, which the service shows beside the name. */
    version?: string | undefined;
    /** How many tasks of each callback run at once; 64 by default. */
    concurrency?: number | undefined;
    /** How long handlers may take to end when the worker stops; 20 s by default. Then their tasks are given back. */
    drainTimeout?: Duration | undefined;
    /** How long an attempt may take whose task says nothing else; 10 minutes by default. */
    attemptTimeout?: Duration | undefined;
    /** Whether SIGTERM and SIGINT stop the worker; true by default. A second one ends the process at once. */
    signals?: boolean | undefined;
    /** Where tasks come from: polls of the service by default, or a `KafkaSource` of `tickwheel/kafka`. */
    source?: KafkaSource | undefined;
    /** Takes what a worker has to say; the console by default. */
    logger?: Pick<Console, "warn" | "error"> | undefined;
}

/** What a callback is, beside its handler. */
export interface TaskOptions<
    P extends StandardSchema | undefined = undefined,
    R extends StandardSchema | undefined = undefined,
> {
    /** The schema of the payload: zod, valibot, arktype or any other standard schema. */
    payload?: P;
    /** The schema of the result. */
    result?: R;
    /** How many tasks run at once. */
    concurrency?: number | undefined;
    /** How long an attempt may take whose task says nothing else. */
    attemptTimeout?: Duration | undefined;
}

type PayloadOf<P> = P extends StandardSchema ? StandardSchema.Output<P> : unknown;
type ResultOf<R> = R extends StandardSchema ? StandardSchema.Input<R> : unknown;

/** A function that runs a task. What it returns is the result; an error is a retry. */
export type Handler<Payload, Result = unknown> = (job: Job<Payload>) => Result | Outcome | Promise<Result | Outcome>;

/**
 * Runs tasks of callbacks.
 *
 * ```ts
 * const worker = new Worker("http://127.0.0.1:7420");
 * worker.task("greet", z.object({ name: z.string() }), ({ payload }) => `hello ${payload.name}`);
 * await worker.run();
 * ```
 */
export class Worker implements AsyncDisposable {
    readonly #options: WorkerOptions;
    readonly #servers: string | readonly string[] | undefined;
    readonly #handlings = new Map<string, Handling>();
    readonly #stopping = new AbortController();
    #running: Promise<void> | undefined;

    /** Makes a worker of a service: its servers are as those of a `Client`. Sends nothing yet. */
    constructor(servers?: string | readonly string[], options: WorkerOptions = {}) {
        access(servers, options);
        this.#servers = servers;
        this.#options = options;
    }

    /** Adds the handler of a callback, with the schema of its payload, or with options. */
    task(callback: string, handler: Handler<unknown>): this;
    task<P extends StandardSchema>(callback: string, payload: P, handler: Handler<StandardSchema.Output<P>>): this;
    task<P extends StandardSchema | undefined = undefined, R extends StandardSchema | undefined = undefined>(
        callback: string,
        options: TaskOptions<P, R>,
        handler: Handler<PayloadOf<P>, ResultOf<R>>,
    ): this;
    task(callback: string, ...rest: [unknown] | [unknown, unknown]): this {
        const handler = rest.at(-1) as Handling["handler"];
        const given = (rest.length > 1 ? rest[0] : {}) as StandardSchema | TaskOptions<StandardSchema, StandardSchema>;
        const options = "~standard" in given ? { payload: given } : given;
        if (typeof handler !== "function") throw new InvalidArgumentError(`the handler of ${callback} is no function`);
        if (this.#handlings.has(callback))
            throw new InvalidArgumentError(`the callback ${JSON.stringify(callback)} has a handler already`);
        if (this.#running) throw new InvalidArgumentError("the worker runs already: add handlers before");
        const concurrency = options.concurrency ?? this.#options.concurrency ?? CONCURRENCY;
        if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > CONCURRENCY_MAX) {
            throw new InvalidArgumentError(`a concurrency of ${concurrency} is no number from 1 to ${CONCURRENCY_MAX}`);
        }
        const attemptTimeout = readDuration(
            options.attemptTimeout ?? this.#options.attemptTimeout ?? ATTEMPT_TIMEOUT,
            "attemptTimeout",
        );
        this.#handlings.set(callback, {
            callback,
            handler,
            payload: options.payload,
            result: options.result,
            concurrency,
            attemptTimeout,
        });
        return this;
    }

    /**
     * Runs until `stop`, a signal of the process or `signal` ends it. Then it takes no further tasks, gives back those that have
     * not begun, lets handlers end up to `drainTimeout`, and gives back the rest. None of that counts as an attempt.
     *
     * An outage of the service is no error: the worker waits for its end.
     */
    run(options: { signal?: AbortSignal } = {}): Promise<void> {
        if (this.#handlings.size === 0)
            throw new InvalidArgumentError("the worker has no task: add one with `task(callback, handler)`");
        if (this.#running) throw new InvalidArgumentError("the worker runs already");
        const { signal } = options;
        const stop = () => this.#stopping.abort();
        if (signal?.aborted) stop();
        signal?.addEventListener("abort", stop, { once: true });
        const forget = this.#options.signals === false ? () => {} : onSignals(stop);
        this.#running = this.#serve().finally(() => {
            forget();
            signal?.removeEventListener("abort", stop);
        });
        return this.#running;
    }

    /** Stops as `run` says, and resolves when that is done. */
    async stop(): Promise<void> {
        this.#stopping.abort();
        await this.#running;
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.stop();
    }

    async #serve(): Promise<void> {
        const { servers, headers, transport } = access(this.#servers, this.#options);
        const name = this.#options.name ?? (await defaultName());
        const logger = this.#options.logger ?? console;
        const attempts = new Map<string, Attempt>();
        const heart = new Heart({ servers, headers, worker: name }, logger, (key, told) =>
            attempts.get(key)?.told(told),
        );
        await Promise.all([heart.start(this.#options.fetch), tracingReady()]);
        const settler = new Settler(transport, name);
        const { version } = this.#options;
        const tools: Tools = {
            name,
            version,
            transport,
            heart,
            settler,
            attempts,
            stopping: this.#stopping.signal,
            logger,
        };
        const lanes = await this.#lanes(tools);
        try {
            const polled = Promise.all(lanes.map((lane) => lane.poll()));
            await Promise.race([polled, aborted(this.#stopping.signal)]);
            await Promise.all([polled, leave(transport, name)]);
            await this.#drain(lanes, attempts, logger);
        } finally {
            await Promise.all(lanes.map((lane) => lane.close()));
            await heart.stop();
        }
    }

    /** What brings the tasks of each callback. */
    async #lanes(tools: Tools): Promise<(Lane | KafkaLane)[]> {
        const handlings = [...this.#handlings.values()];
        const { source } = this.#options;
        if (!source) return handlings.map((handling) => new Lane(handling, tools));
        const { KafkaLane } = await import("./kafka/lane.js");
        return handlings.map((handling) => new KafkaLane(handling, tools, source.options));
    }

    async #drain(lanes: (Lane | KafkaLane)[], attempts: Map<string, Attempt>, logger: Tools["logger"]): Promise<void> {
        const ended = Promise.all(lanes.map((lane) => lane.ended()));
        const limit = readDuration(this.#options.drainTimeout ?? DRAIN_TIMEOUT, "drainTimeout");
        if (await endsWithin(ended, limit)) return;
        logger.warn(`tickwheel: ${attempts.size} handlers did not end in time: their tasks are given back`);
        for (const attempt of attempts.values()) attempt.abort("stopping", Outcome.snooze(0));
        if (!(await endsWithin(ended, LAST_REPORTS)))
            logger.warn("tickwheel: not every outcome could be reported: the service comes back to the tasks");
    }
}

/** Has the polls of a worker answered at once. Without an answer they end by themselves. */
async function leave(transport: Transport, worker: string): Promise<void> {
    const call = {
        method: "POST",
        path: "/v1/worker/leave",
        body: JSON.stringify({ worker }),
        repeatable: true,
        timeout: 2_000,
    };
    await transport.send(call).catch(() => {});
}

function aborted(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

async function endsWithin(ended: Promise<unknown>, limit: number): Promise<boolean> {
    const stop = new AbortController();
    const late = sleep(limit, stop.signal).then(
        () => false,
        () => false,
    );
    const inTime = await Promise.race([ended.then(() => true), late]);
    stop.abort();
    return inTime;
}

/** Calls `stop` at the first signal; a second one does what it would do without a worker, which is to end the process. */
function onSignals(stop: () => void): () => void {
    const forget = () => {
        for (const name of SIGNALS) process.off(name, first);
    };
    const first = () => {
        forget();
        stop();
    };
    for (const name of SIGNALS) process.on(name, first);
    return forget;
}

async function defaultName(): Promise<string> {
    const { hostname } = await import("node:os");
    return `node-${hostname()}-${process.pid}-${crypto.randomUUID().slice(0, 8)}`;
}
