import type { Worker as Thread } from "node:worker_threads";
import { Transport, readJson } from "../transport.js";
import { Beats, type Kept, type SendBeats, type ToHeart, type Told, keyOf } from "./beats.js";

/** What the thread is started with. */
export interface HeartData {
    servers: readonly string[];
    headers: Readonly<Record<string, string>>;
    worker: string;
}

/** Returns the function that sends heartbeats. */
export function sender({ servers, headers, worker }: HeartData, using: typeof fetch): SendBeats {
    const transport = new Transport({ servers, headers, serverTimeout: Number.POSITIVE_INFINITY, fetch: using });
    return async (tasks, timeout) => {
        const body = JSON.stringify({ worker, tasks });
        return readJson(
            await transport.send({
                method: "POST",
                path: "/v1/worker/heartbeat",
                body,
                repeatable: true,
                once: true,
                timeout,
            }),
        );
    };
}

/**
 * Keeps running attempts alive from a thread of its own, which a handler that blocks the event loop does not hold up.
 *
 * A `fetch` that the program brings cannot go to another thread: heartbeats are then sent from this one.
 */
export class Heart {
    readonly #data: HeartData;
    readonly #logger: Pick<Console, "error">;
    readonly #tell: (key: string, told: Told) => void;
    readonly #kept = new Map<string, Kept>();
    #thread: Thread | undefined;
    #beats: Beats | undefined;
    #removed: string[] = [];
    #failure: unknown;
    #stopped = false;

    constructor(data: HeartData, logger: Pick<Console, "error">, tell: (key: string, told: Told) => void) {
        this.#data = data;
        this.#logger = logger;
        this.#tell = tell;
    }

    async start(using: typeof fetch | undefined): Promise<void> {
        if (using) {
            this.#beats = new Beats(sender(this.#data, using), (key, told) => this.#told(key, told));
            return;
        }
        const { Worker: Thread } = await import("node:worker_threads");
        const thread = new Thread(new URL("./heart-thread.js", import.meta.url), { workerData: this.#data });
        thread.on("message", ({ key, told }: { key: string; told: Told }) => this.#told(key, told));
        thread.on("error", (error) => (this.#failure = error));
        thread.on("exit", () => this.#exited());
        this.#thread = thread;
    }

    /** Without its thread, as in a bundle that leaves out the file of it, the heart goes on in this one. */
    #exited(): void {
        if (this.#stopped) return;
        this.#logger.error(
            `tickwheel: the thread of the heartbeats has ended, which now share the thread of the handlers: ${this.#failure}`,
        );
        this.#thread = undefined;
        void this.start(fetch);
        this.#do({ added: [...this.#kept.values()] });
    }

    /** Keeps attempts alive. It is known to the heart before their handlers begin, so that none can hold it up. */
    add(added: Kept[]): void {
        for (const kept of added) this.#kept.set(keyOf(kept), kept);
        this.#do({ added });
    }

    /** Lets go of an attempt, with others that end in the same turn of the event loop. */
    remove(key: string): void {
        if (!this.#kept.delete(key)) return;
        if (this.#removed.push(key) > 1) return;
        setImmediate(() => {
            this.#do({ removed: this.#removed });
            this.#removed = [];
        });
    }

    progress(key: string, json: string): void {
        this.#do({ progress: { key, json } });
    }

    async stop(): Promise<void> {
        this.#stopped = true;
        this.#beats?.stop();
        await this.#thread?.terminate();
    }

    #do(message: ToHeart): void {
        if (this.#beats) this.#beats.take(message);
        else this.#thread?.postMessage(message);
    }

    #told(key: string, told: Told): void {
        if (told !== "cancelled") this.#kept.delete(key);
        this.#tell(key, told);
    }
}
