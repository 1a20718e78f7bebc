/** First wait: a server that restarts is back within a second. */
const FIRST = 100;
/** Longest wait, so that a caller is soon back behind the longest outage. */
const LONGEST = 5_000;
/** Longest wait that a service may ask for. */
const ASKED_LONGEST = 30_000;

/** Longest time of a timer, in milliseconds: a longer one would be over at once. */
export const TIMER_MAX = 2 ** 31 - 1;

/** The waits between repetitions of a call: doubled each time, at random below that, or as long as the service asks for. */
export class Backoff {
    #failures = 0;

    /** Counts a failure, and returns the wait before the next try in milliseconds. */
    next(asked?: number): number {
        this.#failures += 1;
        const highest = Math.min(LONGEST, FIRST * 2 ** Math.min(this.#failures, 16));
        const own = Math.max(FIRST, Math.random() * highest);
        return asked === undefined ? own : Math.max(own, Math.min(asked, ASKED_LONGEST));
    }

    /** Counts a success: the next failure waits for as short as the first one. */
    succeeded(): void {
        this.#failures = 0;
    }

    get failures(): number {
        return this.#failures;
    }
}

/** Waits for a promise, until a time limit or a signal is over. */
export async function within<T>(
    promise: Promise<T>,
    ms: number,
    late: () => unknown,
    signal?: AbortSignal,
): Promise<T> {
    const done = new AbortController();
    const stop = signal ? AbortSignal.any([signal, done.signal]) : done.signal;
    const waiting = sleep(ms, stop).then(() => Promise.reject(late()));
    try {
        return await Promise.race([promise, waiting]);
    } finally {
        waiting.catch(() => {});
        done.abort();
    }
}

/** Waits; rejects with the reason of the signal when that comes first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const ended = () => {
            clearTimeout(timer);
            reject(signal?.reason);
        };
        const timer = setTimeout(
            () => {
                signal?.removeEventListener("abort", ended);
                resolve();
            },
            Math.min(ms, TIMER_MAX),
        );
        signal?.addEventListener("abort", ended, { once: true });
    });
}
