import { within } from "./backoff.js";
import { milliseconds } from "./durations.js";
import { TimeoutError } from "./errors.js";
import type { NewTask, Schemas } from "./types.js";

/** How long the time of the service is counted on by the steady clock of this machine. */
const KNOWN_FOR = 60_000;
/** The claim timeout of a task that names none. */
const CLAIM_TIMEOUT = 60_000;
/** Sequences whose last start is remembered before those that have passed are forgotten. */
const SEQUENCES = 10_000;
/** The service has ids up to this time. */
const LATEST = Date.UTC(9999, 11, 30, 22);

/** Asks the service; undefined from one that does not know the question, and rejects when there is no answer now. */
type Ask = (signal: AbortSignal) => Promise<Schemas["IdsResponse"] | undefined>;

interface Asking {
    learned: Promise<void>;
    stop: AbortController;
    waiting: number;
}

interface Facts {
    wheels: number;
    /** Its time, or later, when `at` was on the steady clock. */
    time: number;
    at: number;
    /** How long that is counted on. */
    validFor: number;
}

/**
 * Makes the ids of tasks, so that a registration that is sent twice is one task (docs/keys.md of the service).
 *
 * A delay is counted by the time of the service, never by the clock of this machine. A service that does not say what ids are
 * made of is sent an idempotency key in their place.
 */
export class Ids {
    readonly #ask: Ask;
    #facts: Facts | undefined;
    #unknownUntil = 0;
    #asking: Asking | undefined;
    /** The last start of each sequence whose tasks start at once: they follow each other by a millisecond. */
    readonly #line = new Map<string, number>();

    constructor(ask: Ask) {
        this.#ask = ask;
    }

    /**
     * Makes sure that the facts are known, if the service tells them; undefined when nothing needs to be waited for. The question
     * is dropped when no caller waits for its answer any more.
     */
    ready(timeout: number, signal?: AbortSignal): Promise<void> | undefined {
        const now = performance.now();
        if (now < this.#unknownUntil || (this.#facts && now - this.#facts.at < this.#facts.validFor)) return undefined;
        const asking = (this.#asking ??= this.#learning());
        asking.waiting += 1;
        const late = () => new TimeoutError(`the service did not answer within ${Math.round(timeout)} ms`, false);
        return within(asking.learned, timeout, late, signal).finally(() => {
            asking.waiting -= 1;
            if (asking.waiting > 0) return;
            asking.stop.abort();
            // The next caller asks anew.
            if (this.#asking === asking) this.#asking = undefined;
        });
    }

    #learning(): Asking {
        const stop = new AbortController();
        return { learned: this.#learn(stop.signal), stop, waiting: 0 };
    }

    async #learn(signal: AbortSignal): Promise<void> {
        const at = performance.now();
        this.#facts = undefined;
        const answer = await this.#ask(signal);
        const time = Date.parse(answer?.time ?? "");
        // A service whose clock a test moves says that it is to be asked each time.
        const told = answer?.valid_for ? milliseconds(answer.valid_for) : undefined;
        const validFor = Math.min(KNOWN_FOR, told ?? KNOWN_FOR);
        if (answer && answer.wheels > 0 && !Number.isNaN(time))
            this.#facts = { wheels: answer.wheels, time, at, validFor };
        else this.#unknownUntil = at + KNOWN_FOR;
    }

    /** Fixes the id and the start of a task; returns whether the task may be sent twice. */
    fix(task: NewTask): boolean {
        if (task.id || task.idempotency_key) return true;
        // Nothing tells whether a record was published, so it may be published once more.
        if (task.kafka) return false;
        const fixed = this.#fixed(task);
        if (fixed) {
            task.id = make(fixed.start, fixed.step, fixed.wheels);
            task.start_time = new Date(fixed.start).toISOString();
            delete task.delay;
        } else {
            task.idempotency_key = `tickwheel-ts-${crypto.randomUUID()}`;
        }
        return true;
    }

    #fixed(task: NewTask): { start: number; step: number; wheels: number } | undefined {
        const facts = this.#facts;
        if (!facts) return undefined;
        // The time of a service that is asked each time counts as it was told: a test moves its clock by the delay.
        const passed = facts.validFor > 0 ? performance.now() - facts.at : 0;
        const now = Math.ceil(facts.time + passed);
        const start = this.#start(task, now);
        const timeout = task.claim_timeout == null ? CLAIM_TIMEOUT : milliseconds(task.claim_timeout);
        if (start === undefined || timeout === undefined || start > LATEST) return undefined;
        return { start, step: stepCovering(timeout), wheels: facts.wheels };
    }

    /** Undefined where the service is to say what the start means, or that it means nothing. */
    #start(task: NewTask, now: number): number | undefined {
        if (task.start_time != null) {
            const at = task.start_time instanceof Date ? task.start_time.getTime() : instant(task.start_time);
            // A start that has passed means now, and an expiry counts from there.
            return task.delay != null || at === undefined || at < now ? undefined : at;
        }
        if (task.delay != null) {
            const delay = milliseconds(task.delay);
            return delay === undefined || delay < 0 ? undefined : now + Math.round(delay);
        }
        return task.ordering_key ? this.#inLine(JSON.stringify([task.callback, task.ordering_key]), now) : now;
    }

    #inLine(key: string, now: number): number {
        const start = Math.max(now, (this.#line.get(key) ?? 0) + 1);
        if (this.#line.size >= SEQUENCES) {
            for (const [other, last] of this.#line) if (last < now) this.#line.delete(other);
        }
        this.#line.set(key, start);
        return start;
    }
}

/** Reads a text of RFC 3339; undefined for another one, and for a fraction that is finer than milliseconds. */
function instant(text: string): number | undefined {
    const form = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,3}0*)?([Zz]|[+-]\d\d:\d\d)$/;
    const at = form.test(text) ? Date.parse(text.replace(" ", "T")) : Number.NaN;
    return Number.isNaN(at) ? undefined : at;
}

/** Returns the shortest look step that covers a claim timeout: 5 s times the fourth roots of two, in whole seconds. */
export function stepCovering(timeout: number): number {
    const roots = [1000, 1189, 1414, 1682];
    for (let step = 0; step < 63; step += 1) {
        const seconds = Math.ceil((5 * (roots[step % 4] ?? 1000) * 2 ** Math.floor(step / 4)) / 1000);
        if (seconds * 1000 >= timeout) return step;
    }
    return 63;
}

/** Makes an id: a UUID of version 8 with the start, a wheel, the look step and 56 random bits. */
export function make(start: number, step: number, wheels: number): string {
    const random = crypto.getRandomValues(new Uint8Array(9));
    const wheel = (((random[0] ?? 0) << 8) | (random[1] ?? 0)) % wheels;
    const low = random.subarray(1, 9);
    low[0] = 0x80 | step;
    // A step and eight bits of ones mark the tasks of the service itself.
    if (step === 63 && low[1] === 0xff) low[1] = 0xfe;
    const time = start.toString(16).padStart(12, "0");
    const tail = Array.from(low, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const middle = `8${wheel.toString(16).padStart(3, "0")}`;
    return `${time.slice(0, 8)}-${time.slice(8)}-${middle}-${tail.slice(0, 4)}-${tail.slice(4)}`;
}
