import { Backoff, TIMER_MAX, sleep } from "./backoff.js";
import { RefusedError, ServiceError, TimeoutError, UnavailableError, mayHaveTakenEffect } from "./errors.js";

/** Items of one request. */
const ITEMS = 256;
/** Bytes of the items of one request; a larger item travels alone. */
const BYTES = 1024 * 1024;

/** One item's answer. */
export type Settled<T> = { value: T } | { error: ServiceError };

/** How a request is sent: its items as JSON, and for how long. */
export type Send<T> = (
    items: string[],
    how: { lane: string; timeout: number; signal: AbortSignal },
) => Promise<Settled<T>[]>;

export interface Wish {
    /** How long the caller waits, in milliseconds. */
    timeout: number;
    signal?: AbortSignal | undefined;
    /** Items of one lane share requests, and keep their order. */
    lane?: string;
    /** Whether sending the item twice does no harm. */
    repeatable?: boolean;
}

interface Entry<T> {
    json: string;
    bytes: number;
    end: number;
    repeatable: boolean;
    resolve: (value: T) => void;
    reject: (reason: unknown) => void;
    /** Aborts the request when no caller waits for it any more. */
    left: () => void;
    done: boolean;
}

interface Lane<T> {
    waiting: Entry<T>[];
    sending: boolean;
}

/**
 * Lets calls travel together: while one request of a lane is under way, the calls that come meanwhile are the next one. There
 * is no timer, so a lonely call waits for nothing.
 *
 * Each caller has its own time limit, error and signal. A request goes on as long as one caller waits for it.
 */
export class Coalescer<T> {
    readonly #send: Send<T>;
    readonly #lanes = new Map<string, Lane<T>>();

    constructor(send: Send<T>) {
        this.#send = send;
    }

    add(json: string, wish: Wish): Promise<T> {
        const name = wish.lane ?? "";
        return new Promise<T>((resolve, reject) => {
            if (wish.signal?.aborted) return reject(wish.signal.reason);
            const entry: Entry<T> = {
                json,
                bytes: byteLength(json),
                end: performance.now() + wish.timeout,
                repeatable: wish.repeatable ?? true,
                resolve: (value) => settle(() => resolve(value)),
                reject: (reason) => settle(() => reject(reason)),
                left: () => {},
                done: false,
            };
            const settle = (how: () => void) => {
                if (entry.done) return;
                entry.done = true;
                clearTimeout(timer);
                wish.signal?.removeEventListener("abort", aborted);
                how();
                entry.left();
            };
            const aborted = () => entry.reject(wish.signal?.reason);
            const timer = setTimeout(
                () => {
                    const sent = !this.#lanes.get(name)?.waiting.includes(entry);
                    entry.reject(
                        new TimeoutError(`the call was not answered within ${Math.round(wish.timeout)} ms`, sent),
                    );
                },
                Math.min(wish.timeout, TIMER_MAX),
            );
            wish.signal?.addEventListener("abort", aborted, { once: true });
            this.#enqueue(name, entry);
        });
    }

    #enqueue(name: string, entry: Entry<T>): void {
        let lane = this.#lanes.get(name);
        if (!lane) this.#lanes.set(name, (lane = { waiting: [], sending: false }));
        lane.waiting.push(entry);
        if (lane.sending) return;
        // Calls of the same turn of the event loop are the first request.
        lane.sending = true;
        queueMicrotask(() => void this.#run(name, lane));
    }

    async #run(name: string, lane: Lane<T>): Promise<void> {
        const backoff = new Backoff();
        for (;;) {
            const batch = take(lane.waiting);
            if (batch.length === 0) break;
            const again = await this.#deliver(name, batch);
            if (again.entries.length === 0) {
                backoff.succeeded();
                continue;
            }
            lane.waiting.unshift(...again.entries);
            await sleep(backoff.next(again.asked));
        }
        this.#lanes.delete(name);
    }

    /** Sends a request; returns the items that are to be sent again. */
    async #deliver(lane: string, batch: Entry<T>[]): Promise<{ entries: Entry<T>[]; asked?: number | undefined }> {
        const stop = new AbortController();
        for (const entry of batch) {
            entry.left = () => {
                if (batch.every(({ done }) => done)) stop.abort();
            };
        }
        const timeout = Math.max(...batch.map(({ end }) => end)) - performance.now();
        try {
            const answers = await this.#send(
                batch.map(({ json }) => json),
                { lane, timeout: Math.max(1, timeout), signal: stop.signal },
            );
            return read(batch, answers);
        } catch (error) {
            // A request that is refused as a whole is sent item by item, so that the wrong one is found.
            if (error instanceof RefusedError && batch.length > 1) return await this.#singly(lane, batch);
            for (const entry of batch) entry.reject(error);
            return { entries: [] };
        }
    }

    async #singly(lane: string, batch: Entry<T>[]): Promise<{ entries: Entry<T>[]; asked?: number | undefined }> {
        const again: Entry<T>[] = [];
        let asked: number | undefined;
        for (const entry of batch) {
            if (entry.done) continue;
            const left = await this.#deliver(lane, [entry]);
            again.push(...left.entries);
            asked = left.asked ?? asked;
        }
        return { entries: again, asked };
    }
}

/** Takes the oldest items, as far as they fit into a request. */
function take<T>(waiting: Entry<T>[]): Entry<T>[] {
    let count = 0;
    let bytes = 0;
    const batch: Entry<T>[] = [];
    for (const entry of waiting) {
        if (!entry.done) {
            bytes += entry.bytes;
            if (batch.length === ITEMS || (bytes > BYTES && batch.length > 0)) break;
            batch.push(entry);
        }
        count += 1;
    }
    waiting.splice(0, count);
    return batch;
}

function read<T>(batch: Entry<T>[], answers: Settled<T>[]): { entries: Entry<T>[]; asked?: number | undefined } {
    const entries: Entry<T>[] = [];
    let asked: number | undefined;
    batch.forEach((entry, place) => {
        const answer = answers[place];
        if (!answer || entry.done) return;
        if ("value" in answer) return entry.resolve(answer.value);
        const { error } = answer;
        const mayRepeat =
            error instanceof UnavailableError && error.retryable && (entry.repeatable || !mayHaveTakenEffect(error));
        if (!mayRepeat) return entry.reject(error);
        asked = Math.max(asked ?? 0, error.retryAfter ?? 0);
        entries.push(entry);
    });
    return { entries, asked };
}

const encoder = new TextEncoder();

function byteLength(text: string): number {
    return text.length * 3 <= BYTES / ITEMS ? text.length : encoder.encode(text).byteLength;
}
