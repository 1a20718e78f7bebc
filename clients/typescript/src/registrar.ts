import { Coalescer, type Settled } from "./coalescer.js";
import { UnexpectedAnswerError, ofProblem } from "./errors.js";
import type { Ids } from "./ids.js";
import { toJson, written } from "./tasks.js";
import { activeTrace, producing, tracingReady } from "./tracing.js";
import { type Reply, type Transport, readJson } from "./transport.js";
import type { NewTask, Problem, Schemas, Task } from "./types.js";

export type Cancelled = Schemas["CancelResponse"];

export interface Limits {
    timeout: number;
    signal?: AbortSignal | undefined;
}

/** The name of the span of a request. */
const SPAN = "tickwheel register";
/** The lane of tasks that must not be sent twice. */
const ONCE = "/once";

/** Registers and cancels tasks, of which many travel with one request. */
export class Registrar {
    readonly #transport: Transport;
    readonly #ids: Ids;
    readonly #registrations: Coalescer<Task>;
    readonly #cancels: Coalescer<Cancelled>;

    constructor(transport: Transport, ids: Ids) {
        this.#transport = transport;
        this.#ids = ids;
        this.#registrations = new Coalescer((items, how) => {
            const repeatable = !how.lane.endsWith(ONCE);
            const trace = repeatable ? how.lane : how.lane.slice(0, -ONCE.length);
            return producing(SPAN, trace, async (headers) => {
                const body = `{"tasks":[${items.join(",")}]}`;
                const call = { method: "POST", path: "/v1/tasks:batchCreate", body, headers, repeatable };
                const reply = await this.#transport.send({ ...call, timeout: how.timeout, signal: how.signal });
                return results<BatchItem>(reply, items.length).map((item) =>
                    settled(reply, item, item.task && ({ ...item.task, outcome: item.outcome } as Task)),
                );
            });
        });
        this.#cancels = new Coalescer(async (items, { timeout, signal }) => {
            const body = `{"ids":[${items.join(",")}]}`;
            const call = { method: "POST", path: "/v1/tasks:batchCancel", body, repeatable: true };
            const reply = await this.#transport.send({ ...call, timeout, signal });
            return results<BatchItem>(reply, items.length).map((item) => {
                const { outcome, reason, task } = item;
                return settled(reply, item, outcome && task ? ({ outcome, reason, task } as Cancelled) : undefined);
            });
        });
    }

    async register(task: NewTask, { timeout, signal }: Limits): Promise<Task> {
        const copy = written(task);
        const end = performance.now() + timeout;
        await tracingReady();
        const trace = activeTrace();
        await this.#ids.ready(timeout, signal);
        const repeatable = this.#ids.fix(copy);
        if (copy.children?.length) return this.#tree(copy, trace, { timeout: end - performance.now(), signal });
        const lane = repeatable ? trace : trace + ONCE;
        return this.#registrations.add(toJson(copy), { timeout: end - performance.now(), signal, lane, repeatable });
    }

    cancel(id: string, { timeout, signal }: Limits): Promise<Cancelled> {
        return this.#cancels.add(JSON.stringify(id), { timeout, signal });
    }

    /** A tree has a request of its own. */
    #tree(task: NewTask, trace: string, limits: Limits): Promise<Task> {
        return producing(SPAN, trace, async (headers) => {
            const call = { method: "POST", path: "/v1/tasks", body: toJson(task), headers, repeatable: true };
            return readJson<Task>(await this.#transport.send({ ...call, ...limits }));
        });
    }
}

interface BatchItem {
    outcome?: string | null;
    reason?: string | null;
    task?: Task | null;
    error?: Problem | null;
}

/** Reads the results of a batch, one for each of its items. */
export function results<T>(reply: Reply, count: number): T[] {
    const read = readJson<{ results?: T[] }>(reply).results;
    if (Array.isArray(read) && read.length === count) return read;
    throw new UnexpectedAnswerError(
        `${reply.server} answered ${Array.isArray(read) ? read.length : "no"} results for ${count} items`,
    );
}

function settled<T>(reply: Reply, item: BatchItem, value: T | null | undefined): Settled<T> {
    if (item.error) return { error: ofProblem(item.error) };
    if (value) return { value };
    throw new UnexpectedAnswerError(`${reply.server} answered a result without a task and without an error`);
}
