import { Coalescer } from "../coalescer.js";
import { ofProblem } from "../errors.js";
import type { Outcome } from "../outcome.js";
import { results } from "../registrar.js";
import type { Transport } from "../transport.js";
import type { Schemas } from "../types.js";
import type { Attempt } from "./attempt.js";

/** How long a report is repeated at most, even if heartbeats keep its lease alive. */
const LONGEST = 600_000;

/** Reports how attempts ended; reports that come at once travel together. */
export class Settler {
    readonly #reports: Coalescer<Schemas["SettleResult"]>;

    constructor(transport: Transport, worker: string) {
        this.#reports = new Coalescer(async (items, { timeout, signal }) => {
            const body = `{"worker":${JSON.stringify(worker)},"tasks":[${items.join(",")}]}`;
            const call = { method: "POST", path: "/v1/worker/settle", body, repeatable: true };
            const reply = await transport.send({ ...call, timeout, signal });
            return results<Schemas["SettleResult"]>(reply, items.length).map((result) =>
                result.status === "error" && result.error ? { error: ofProblem(result.error) } : { value: result },
            );
        });
    }

    /**
     * Reports until it is known: work that is done must not be done again because its report was lost. Resolves with false when
     * another attempt has the task by then.
     */
    async settle(attempt: Attempt, outcome: Outcome): Promise<boolean> {
        const { id, attempt: number } = attempt.task;
        const report = JSON.stringify(outcome.report(id, number));
        const { status } = await this.#reports.add(report, { timeout: LONGEST, signal: attempt.useless });
        return status !== "lost";
    }
}
