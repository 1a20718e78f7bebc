import { type ClientOptions, access } from "./access.js";
import { durationText } from "./durations.js";
import {
    InvalidArgumentError,
    NotFoundError,
    ServiceError,
    TaskNotSucceededError,
    TimeoutError,
    UnexpectedAnswerError,
    ValidationError,
} from "./errors.js";
import { Ids } from "./ids.js";
import { List, type Page } from "./pages.js";
import { type Cancelled, type Limits, Registrar } from "./registrar.js";
import { ApiKeys, Callbacks, DeadLetters, Jobs, KeyedTask, Schedules } from "./resources.js";
import { written } from "./operations.js";
import { type StandardSchema, validated } from "./standard-schema.js";
import { type NewStart, startFields } from "./tasks.js";
import { type Transport, readJson } from "./transport.js";
import type { Answer, CallOptions, Instant, NewTask, Request, Schemas, Task, TaskState, operations } from "./types.js";

/** How long a call may take with all its repetitions. */
const TIMEOUT = 30_000;
/** How long one request waits for the end of a task: within the idle limits of usual proxies. */
const WAIT = 30_000;

/** The filter of a list of tasks. */
export type TaskFilter = Omit<
    NonNullable<Request<"listTasks">["query"]>,
    "label.NAME" | "labels" | "page_token" | "start_time_from" | "start_time_to"
> & {
    labels?: Readonly<Record<string, string>> | undefined;
    start_time_from?: Instant | undefined;
    start_time_to?: Instant | undefined;
};

/** How long the last answer may take behind the time of a wait. */
const SLACK = 2_000;

/** The operations whose answers may be texts. */
const TEXTS: ReadonlySet<keyof operations> = new Set<keyof operations>([
    "livez",
    "startupz",
    "readyz",
    "metrics",
    "getTree",
]);

const ENDED: ReadonlySet<TaskState> = new Set(["succeeded", "failed", "cancelled", "expired", "dead", "published"]);

/** Tells whether a task has ended. */
export function hasEnded(task: Pick<Task, "state">): boolean {
    return ENDED.has(task.state);
}

/**
 * A client of the service. One of them serves a whole program: calls of `register` and `cancel` that come at once travel
 * together.
 *
 * ```ts
 * const client = new Client("http://127.0.0.1:7420");
 * const task = await client.register({ callback: "greet", delay: "2s", payload: { name: "Ada" } });
 * ```
 */
export class Client implements AsyncDisposable {
    readonly schedules = new Schedules(this);
    readonly callbacks = new Callbacks(this);
    readonly deadLetters = new DeadLetters(this);
    readonly jobs = new Jobs(this);
    readonly apiKeys = new ApiKeys(this);
    readonly #transport: Transport;
    readonly #registrar: Registrar;
    readonly #timeout: number;
    #closed = false;
    #underWay = 0;
    #idle: () => void = () => {};

    /**
     * Makes a client of a server, or of several that are asked in turn; that of `TICKWHEEL_SERVER` by default, else
     * `http://127.0.0.1:7420`. Sends nothing yet.
     */
    constructor(servers?: string | readonly string[], options: ClientOptions = {}) {
        this.#timeout = options.timeout ?? TIMEOUT;
        this.#transport = access(servers, options).transport;
        this.#registrar = new Registrar(this.#transport, new Ids((signal) => this.#ids(signal)));
    }

    /**
     * Registers a task. Once it has resolved, the task is on disk and will start at its time.
     *
     * The request is repeated after a lost answer, and is one task all the same: the client makes the id.
     */
    register(task: NewTask, options: CallOptions = {}): Promise<Task> {
        return this.#open(() => this.#registrar.register(task, this.#limits(options)));
    }

    /** Registers many tasks, each with a result of its own, in order. */
    registerBatch(tasks: Iterable<NewTask>, options: CallOptions = {}): Promise<PromiseSettledResult<Task>[]> {
        return Promise.allSettled(Array.from(tasks, (task) => this.register(task, options)));
    }

    /** Reads a task, with its payload. */
    get(id: string, options?: CallOptions): Promise<Task> {
        return this.call("getTask", { path: { id }, query: { view: "FULL" } }, options);
    }

    /** Waits until a task has ended, for ever unless a `timeout`, a `signal` or an outage of the service ends it. */
    async wait(id: string, options: CallOptions = {}): Promise<Task> {
        const end = performance.now() + (options.timeout ?? Number.POSITIVE_INFINITY);
        for (;;) {
            const left = end - performance.now();
            const wait = Math.round(Math.max(0, Math.min(WAIT, left)));
            const request = { path: { id }, query: { view: "FULL" as const, wait: durationText(wait) } };
            const limits = { signal: options.signal, timeout: Math.min(this.#timeout + wait, left + SLACK) };
            const task = await this.#open(() => this.#send<Task>("getTask", request, limits, wait));
            if (hasEnded(task)) return task;
            if (performance.now() >= end)
                throw new TimeoutError(
                    `task ${id} has not ended within ${options.timeout} ms: it is ${task.state}`,
                    false,
                );
        }
    }

    /** Waits for the result of a task; rejects when it does not succeed. With a schema, the result is checked and has its type. */
    result<S extends StandardSchema>(id: string, schema: S, options?: CallOptions): Promise<StandardSchema.Output<S>>;
    result(id: string, options?: CallOptions): Promise<unknown>;
    async result(id: string, schemaOrOptions?: StandardSchema | CallOptions, options?: CallOptions): Promise<unknown> {
        const hasSchema = schemaOrOptions !== undefined && "~standard" in schemaOrOptions;
        const task = await this.wait(id, hasSchema ? options : schemaOrOptions);
        if (task.state !== "succeeded") throw new TaskNotSucceededError(task);
        if (!hasSchema) return task.result;
        const result = await validated(schemaOrOptions, task.result, "the result");
        if (result instanceof ValidationError) throw result;
        return result;
    }

    /** Cancels a task, with `tree` also all tasks below it. The answer says whether the cancel or the start won. */
    cancel(id: string, options: CallOptions & { tree?: boolean } = {}): Promise<Cancelled> {
        const { tree, ...rest } = options;
        if (tree) return this.call("cancelTask", { path: { id }, body: { tree } }, rest);
        return this.#open(() => this.#registrar.cancel(id, this.#limits(rest)));
    }

    /** Cancels many tasks, each with a result of its own, in order. */
    cancelBatch(ids: Iterable<string>, options: CallOptions = {}): Promise<PromiseSettledResult<Cancelled>[]> {
        return Promise.allSettled(Array.from(ids, (id) => this.cancel(id, options)));
    }

    /** Moves the start of a task. The answer says whether the move or the start won. */
    reschedule(id: string, start: NewStart, options?: CallOptions): Promise<Schemas["RescheduleResponse"]> {
        return this.call("rescheduleTask", { path: { id }, body: startFields(start) }, options);
    }

    /** Starts a task now, also a dead one, which then has all its attempts again. */
    run(id: string, options?: CallOptions): Promise<Schemas["RescheduleResponse"]> {
        return this.call("runTask", { path: { id } }, options);
    }

    /** Delivers a task over HTTP once more. */
    redeliver(id: string, options?: CallOptions): Promise<Schemas["RescheduleResponse"]> {
        return this.call("redeliverTask", { path: { id } }, options);
    }

    /** Returns the task that a key names within a callback. */
    key(callback: string, key: string): KeyedTask {
        return new KeyedTask(this, callback, key);
    }

    /** Lists tasks that have not ended, and those that ended lately. */
    list(filter: TaskFilter = {}, options?: CallOptions): List<Task> {
        const { labels = {}, ...rest } = filter;
        const wanted = Object.entries(labels).map(([name, value]) => [`label.${name}`, value]);
        return this.pages(async (page_token) => {
            const query = { ...rest, ...Object.fromEntries(wanted), page_token };
            const { tasks, next_page_token } = await this.call("listTasks", { query }, options);
            return { items: tasks, next: next_page_token };
        });
    }

    /** Reads a tree of tasks from one of its tasks down. */
    async tree(id: string, options?: CallOptions & { depth?: number }): Promise<Schemas["TreeResponse"]> {
        const { depth, ...rest } = options ?? {};
        const answer = await this.call("getTree", { path: { id }, query: { format: "json", depth } as never }, rest);
        return answer as Schemas["TreeResponse"];
    }

    /** Tells why a task does not run: the causes in the order of time, and one sentence about the first. */
    async why(id: string, options?: CallOptions): Promise<Schemas["WhyResponse"]> {
        return this.call("explainTask", { path: { id } }, options);
    }

    /** Runs the failed tasks of a tree again, all of them, however many calls that takes. */
    async retryFailed(id: string, options?: CallOptions): Promise<Schemas["RetryFailedAnswer"]> {
        let retried = 0;
        let failed_before: string | null | undefined;
        for (;;) {
            const answer = await this.call(
                "retryFailed",
                { path: { id }, body: failed_before ? { failed_before } : {} },
                options,
            );
            retried += answer.retried;
            if (answer.complete) return { ...answer, retried };
            failed_before = answer.failed_before;
        }
    }

    /** Says that all children of a task were added, whose tree `children_within` holds open for them. */
    async completeChildren(id: string, options?: CallOptions): Promise<Task> {
        return this.call("completeChildren", { path: { id } }, options);
    }

    /** Lets a task of a tree that has succeeded run again; with `attempt`, only if that is its last one. */
    async reopen(id: string, options?: CallOptions & { attempt?: number }): Promise<Task> {
        const { attempt, ...rest } = options ?? {};
        const body = attempt === undefined ? {} : { attempt };
        const { task } = await this.call("reopenTask", { path: { id }, body }, rest);
        return task;
    }

    /** Makes any call of the API, by the name that the API's description has for it. */
    call<Name extends keyof operations>(
        name: Name,
        request: Request<Name>,
        options: CallOptions = {},
    ): Promise<Answer<Name>> {
        return this.#open(() => this.#send(name, request as object, options));
    }

    /** Makes a list of a call that answers a page for the token of the page before. */
    pages<T>(read: (token: string | undefined) => Promise<Page<T>>): List<T> {
        return new List(read);
    }

    /** Waits for the calls that are under way; then the client makes no further ones. */
    async close(): Promise<void> {
        this.#closed = true;
        if (this.#underWay > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
    }

    async [Symbol.asyncDispose](): Promise<void> {
        await this.close();
    }

    async #send<T>(name: keyof operations, request: object, options: CallOptions, wait = 0): Promise<T> {
        const call = { ...written(name, request), ...this.#limits(options), wait };
        const reply = await this.#transport.send(call);
        if (call.streams) return reply.body as T;
        if (reply.text === "") return undefined as T;
        const isText = TEXTS.has(name) && !reply.headers.get("content-type")?.includes("json");
        return isText ? (reply.text as T) : readJson<T>(reply);
    }

    #limits({ signal, timeout }: CallOptions): Limits {
        return { signal, timeout: timeout ?? this.#timeout };
    }

    async #open<T>(call: () => Promise<T>): Promise<T> {
        if (this.#closed) throw new InvalidArgumentError("the client is closed");
        this.#underWay += 1;
        try {
            return await call();
        } finally {
            this.#underWay -= 1;
            if (this.#underWay === 0) this.#idle();
        }
    }

    /** A service of another version may not know what ids are made of: it gets marks then. */
    async #ids(signal: AbortSignal): Promise<Schemas["IdsResponse"] | undefined> {
        try {
            return await this.#send("getIds", {}, { signal });
        } catch (error) {
            const unknown = error instanceof UnexpectedAnswerError || error instanceof NotFoundError;
            if (unknown || (error instanceof ServiceError && !error.retryable)) return undefined;
            throw error;
        }
    }
}
