import { TIMER_MAX } from "../backoff.js";
import type { TaskMessage } from "./message.js";
import type { Place } from "./offsets.js";

/** Messages of one call. */
const BATCH = 1000;
/** Their bytes: a request may have 16 MiB, as base64. */
const BYTES = 8 * 1024 * 1024;
const RANKS: Readonly<Record<string, number>> = { high: 0, normal: 1, low: 2 };

/** A message that is not claimed yet. */
export interface Waiting {
    place: Place;
    offset: bigint;
    value: Buffer;
    message: TaskMessage;
    /** Milliseconds since 1970. */
    notBefore: number;
    failures: number;
}

/** The messages of a callback that wait: until they are due, then until a handler is free. */
export class Line {
    #waiting: Waiting[] = [];
    #wake: () => void = () => {};

    get size(): number {
        return this.#waiting.length;
    }

    add(one: Waiting): void {
        this.#waiting.push(one);
        this.#wake();
    }

    /** Drops what waits of partitions that another worker has now: it receives them. */
    keep(owned: (place: Place) => boolean): void {
        this.#waiting = this.#waiting.filter(({ place }) => owned(place));
    }

    /** Takes messages that are due, at most `max`, of high priority and early start first. */
    take(max: number): Waiting[] {
        const now = Date.now();
        const due = this.#waiting.filter(({ notBefore }) => notBefore <= now);
        due.sort((one, other) => rank(one) - rank(other) || one.message.start - other.message.start);
        const taken: Waiting[] = [];
        let bytes = 0;
        for (const one of due) {
            if (taken.length >= Math.min(max, BATCH) || bytes >= BYTES) break;
            bytes += one.value.length;
            taken.push(one);
        }
        const gone = new Set(taken);
        this.#waiting = this.#waiting.filter((one) => !gone.has(one));
        return taken;
    }

    /** Waits until a message comes or falls due, or `wake` is called. */
    async change(): Promise<void> {
        const next = Math.min(...this.#waiting.map(({ notBefore }) => notBefore));
        let timer: NodeJS.Timeout | undefined;
        await new Promise<void>((resolve) => {
            this.#wake = resolve;
            const wait = next - Date.now();
            if (Number.isFinite(wait)) timer = setTimeout(resolve, Math.min(Math.max(wait, 0), TIMER_MAX));
        });
        clearTimeout(timer);
    }

    wake(): void {
        this.#wake();
    }
}

function rank({ place: { topic } }: Waiting): number {
    return RANKS[topic.slice(topic.lastIndexOf(".") + 1)] ?? 2;
}
