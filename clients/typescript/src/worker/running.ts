import { milliseconds } from "../durations.js";
import { Outcome } from "../outcome.js";
import type { ClaimedTask } from "../types.js";
import { Attempt, type Handling } from "./attempt.js";
import { leaseEnd, steady } from "./clock.js";
import type { Tools } from "./lane.js";

/** The heartbeat timeout of a task for which the service names none. */
const HEARTBEAT_TIMEOUT = 45_000;

/** The attempts of one callback that run. */
export class Running {
    readonly #handling: Handling;
    readonly #tools: Tools;
    readonly #attempts = new Set<Promise<void>>();
    readonly #freed: () => void;

    /** `freed` is called whenever an attempt has ended. */
    constructor(handling: Handling, tools: Tools, freed: () => void) {
        this.#handling = handling;
        this.#tools = tools;
        this.#freed = freed;
    }

    /** How many more may run. */
    get free(): number {
        return this.#handling.concurrency - this.#attempts.size;
    }

    /** Waits for the attempts that run. */
    async ended(): Promise<void> {
        while (this.#attempts.size > 0) await Promise.all(this.#attempts);
    }

    /**
     * Begins attempts of tasks that were claimed, at most `free` of them; the rest is given back. `done` is called for each task
     * once this worker has nothing to do for it any more.
     */
    begin(tasks: readonly ClaimedTask[], leaseStart: number, free: number, done: (task: ClaimedTask) => void): void {
        const { heart, stopping, logger } = this.#tools;
        const claimed = tasks.map((task) => ({
            task,
            timeout: milliseconds(task.heartbeat_timeout ?? "") ?? HEARTBEAT_TIMEOUT,
        }));
        // The answer may have taken so long that another worker runs a task by now.
        const live = claimed.filter((one) => {
            const lives = steady() < leaseEnd(leaseStart, one.timeout);
            if (!lives) done(one.task);
            return lives;
        });
        heart.add(live.map(({ task: { id, attempt }, timeout }) => ({ id, attempt, timeout, sent: leaseStart })));
        live.forEach(({ task }, place) => {
            // More than was asked for, or too late: others can run it at once.
            const begins = place < free && !stopping.aborted && task.callback === this.#handling.callback;
            const run = this.#run(task, leaseStart, begins)
                .catch((error: unknown) => logger.error(`tickwheel: task ${task.id}: ${error}`))
                .finally(() => {
                    this.#attempts.delete(run);
                    done(task);
                    this.#freed();
                });
            this.#attempts.add(run);
        });
    }

    async #run(task: ClaimedTask, leaseStart: number, begins: boolean): Promise<void> {
        const { heart, attempts, settler, logger } = this.#tools;
        const attempt = new Attempt(task, this.#handling, (key, json) => heart.progress(key, json));
        attempts.set(attempt.key, attempt);
        try {
            const outcome = begins ? await attempt.run(this.#limit(task, leaseStart)) : Outcome.snooze(0);
            if (outcome === undefined)
                return logger.warn(
                    `tickwheel: task ${task.id}: attempt ${task.attempt} was lost and its handler aborted`,
                );
            const counts = await settler.settle(attempt, outcome);
            if (!counts)
                logger.warn(`tickwheel: task ${task.id}: attempt ${task.attempt} was lost before its report arrived`);
        } finally {
            heart.remove(attempt.key);
            attempts.delete(attempt.key);
        }
    }

    /** How long an attempt may take from now on: by the rule of its task, else by that of the worker. */
    #limit({ attempt_timeout }: ClaimedTask, leaseStart: number): number {
        const ofTask = attempt_timeout ? milliseconds(attempt_timeout) : undefined;
        return ofTask === undefined
            ? this.#handling.attemptTimeout
            : Math.max(0, leaseEnd(leaseStart, ofTask) - steady());
    }
}
