import { Backoff, sleep } from "../backoff.js";
import { Coalescer } from "../coalescer.js";
import { UnexpectedAnswerError, ofProblem } from "../errors.js";
import type { Outcome } from "../outcome.js";
import { results } from "../registrar.js";
import type { Transport } from "../transport.js";
import type { Schemas } from "../types.js";
import type { Attempt } from "./attempt.js";

/** How long a report is repeated at most, even if heartbeats keep its lease alive. */
const LONGEST = 600_000;

/** Repeats what an answer ends that is not understood: it may come from a proxy, or from a service in the middle of an upgrade. */
async function understood<T>(timeout: number, signal: AbortSignal, ask: (left: number) => Promise<T>): Promise<T> {
    const end = performance.now() + timeout;
    const backoff = new Backoff();
    for (;;) {
        try {
            return await ask(end - performance.now());
        } catch (error) {
            if (!(error instanceof UnexpectedAnswerError) || performance.now() > end) throw error;
            await sleep(backoff.next(), signal);
        }
    }
}

/** Reports how attempts ended; reports that come at once travel together. */
export class Settler {
    readonly #reports: Coalescer<Schemas["SettleResult"]>;

    constructor(transport: Transport, worker: string) {
        this.#reports = new Coalescer((items, how) =>
            understood(how.timeout, how.signal, async (timeout) => {
                const body = `{"worker":${JSON.stringify(worker)},"tasks":[${items.join(",")}]}`;
                const reply = await transport.send({
                    method: "POST",
                    path: "/v1/worker/settle",
                    body,
                    repeatable: true,
                    timeout,
                    signal: how.signal,
                });
                return results<Schemas["SettleResult"]>(reply, items.length).map((result) =>
                    result.status === "error" && result.error ? { error: ofProblem(result.error) } : { value: result },
                );
            }),
        );
    }

    /**
     * Reports until it is known: work that is done must not be done again because its report was lost. Resolves with false when
     * another attempt has the task by then.
     */
    async settle(attempt: Attempt, outcome: Outcome): Promise<boolean> {
        const { id, attempt: number } = attempt.task;
        const { status } = await this.#reports.add(outcome.report(id, number), {
            timeout: LONGEST,
            signal: attempt.useless,
        });
        return status !== "lost";
    }
}
