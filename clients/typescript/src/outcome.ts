import { durationText } from "./durations.js";
import { base64 } from "./tasks.js";
import type { Duration, Schemas } from "./types.js";

type Report = Omit<Schemas["SettleItem"], "id" | "attempt" | "result">;

/** Characters of an error that the service keeps. */
const ERROR_CHARS = 4096;
/** Bytes of a result. */
const RESULT_BYTES = 1024 * 1024;

/**
 * How an attempt ended, where it is not simply the value that the handler returned. A handler returns one or throws one.
 *
 * ```ts
 * if (!user) return Outcome.fail("there is no such user");
 * if (response.status === 429) return Outcome.snooze("1m");
 * ```
 */
export class Outcome {
    readonly #report: Report;
    /** As JSON. */
    readonly #result: string | undefined;

    private constructor(report: Report, result?: string) {
        this.#report = report;
        this.#result = result;
    }

    /** Done, with bytes as the result, which is kept with the task. */
    static bytes(result: Uint8Array, contentType = "application/octet-stream"): Outcome {
        if (result.byteLength > RESULT_BYTES) return tooLarge(result.byteLength);
        return new Outcome({ outcome: "succeeded", result_base64: base64(result), result_content_type: contentType });
    }

    /** Failed: tried again behind `delay`, else by the rule of the task. */
    static retry(error: unknown, options: { delay?: Duration } = {}): Outcome {
        const { delay } = options;
        return new Outcome({
            outcome: "retry",
            error: describe(error),
            ...(delay !== undefined && { delay: durationText(delay) }),
        });
    }

    /** Failed: trying again is of no use. */
    static fail(error: unknown): Outcome {
        return new Outcome({ outcome: "failed", error: describe(error) });
    }

    /** Not now: run again behind `delay`. It does not count as an attempt. */
    static snooze(delay: Duration): Outcome {
        return new Outcome({ outcome: "snoozed", delay: durationText(delay) });
    }

    /** Returns the outcome for what a handler returned: a value is a result. */
    static of(returned: unknown): Outcome {
        if (returned instanceof Outcome) return returned;
        if (returned instanceof Uint8Array) return Outcome.bytes(returned);
        let json: string | undefined;
        try {
            json = JSON.stringify(returned);
        } catch (error) {
            return Outcome.fail(`the handler is done, but its result is not JSON: ${describe(error)}`);
        }
        if (json === undefined) return new Outcome({ outcome: "succeeded" });
        const bytes = new TextEncoder().encode(json).byteLength;
        return bytes > RESULT_BYTES ? tooLarge(bytes) : new Outcome({ outcome: "succeeded" }, json);
    }

    /** Returns the outcome for what a handler threw: an error is a retry. */
    static ofError(thrown: unknown): Outcome {
        return thrown instanceof Outcome ? thrown : Outcome.retry(thrown);
    }

    /** Returns the report as JSON. */
    report(id: string, attempt: number): string {
        const report = JSON.stringify({ id, attempt, ...this.#report });
        return this.#result === undefined ? report : `${report.slice(0, -1)},"result":${this.#result}}`;
    }
}

function tooLarge(bytes: number): Outcome {
    return Outcome.fail(
        `the handler is done, but its result has ${bytes} bytes and the limit is ${RESULT_BYTES}: store it elsewhere and return its address`,
    );
}

/** Returns the text of an error with its causes. */
function describe(error: unknown): string {
    const texts: string[] = [];
    let cause = error;
    while (cause !== undefined && cause !== null && texts.length < 8) {
        texts.push(cause instanceof Error ? cause.message || cause.name : String(cause));
        cause = cause instanceof Error ? cause.cause : undefined;
    }
    const text = texts.join(": ") || "no message";
    return text.length <= ERROR_CHARS ? text : `${text.slice(0, ERROR_CHARS - 1)}…`;
}
