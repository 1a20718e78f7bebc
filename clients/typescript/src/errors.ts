import type { Problem, Task } from "./types.js";

/** Any error of this library. `code` never changes for one kind of error, so programs compare it. */
export class TickwheelError extends Error {
    /** The kind of the error: that of the service's problem document, or one of this library. */
    readonly code: string;
    /** Whether the same call may succeed later. */
    readonly retryable: boolean;

    constructor(code: string, message: string, retryable: boolean, options?: ErrorOptions) {
        super(message, options);
        this.name = new.target.name;
        this.code = code;
        this.retryable = retryable;
    }
}

/** The service answered with a problem document. */
export class ServiceError extends TickwheelError {
    /** Status of the answer; of an item of a batch, the status that it would have had alone. */
    readonly status: number;
    /** The first field that is wrong, as a JSON pointer into the request. */
    readonly field: string | undefined;
    /** The trace id of the request, to find it in logs and traces. */
    readonly traceId: string | undefined;
    /** How long to wait before the next try, in milliseconds, if the service said so. */
    readonly retryAfter: number | undefined;
    /** The document as it came. */
    readonly problem: Problem;

    constructor(problem: Problem, retryAfter?: number) {
        const fields = (problem.errors ?? []).map(({ pointer, detail }) => `${pointer || "/"}: ${detail}`);
        const text = fields.length > 1 ? `${problem.detail} (${fields.join("; ")})` : problem.detail;
        super(problem.code, text, problem.retryable);
        this.status = problem.status;
        this.field = problem.errors?.[0]?.pointer;
        this.traceId = problem.trace_id ?? undefined;
        this.retryAfter = retryAfter;
        this.problem = problem;
    }
}

/** There is no such task, callback, schedule, job or key. */
export class NotFoundError extends ServiceError {}

/** The service understood the request and will not carry it out: change the request. */
export class RefusedError extends ServiceError {}

/** The service cannot do it now: it is overloaded, limited or in the middle of a change. */
export class UnavailableError extends ServiceError {}

/** No server could be reached, or the connection broke. */
export class ConnectionError extends TickwheelError {
    /** Whether the request may have arrived, and so may have taken effect. */
    readonly sent: boolean;

    constructor(message: string, sent: boolean, options?: ErrorOptions) {
        super(
            "connection_failed",
            sent ? `${message}; it is not known whether the request took effect` : message,
            true,
            options,
        );
        this.sent = sent;
    }
}

/** The time of a call was over before it succeeded. `cause` is the last failure, if there was one. */
export class TimeoutError extends TickwheelError {
    /** Whether the request may have arrived, and so may have taken effect. */
    readonly sent: boolean;

    constructor(message: string, sent: boolean, options?: ErrorOptions) {
        super("timeout", message, true, options);
        this.sent = sent;
    }
}

/** Something answered that is not this service, or a version of it that this library does not understand. */
export class UnexpectedAnswerError extends TickwheelError {
    constructor(message: string) {
        super("unexpected_answer", message, false);
    }
}

/** An argument cannot be used: change the program. Nothing was sent. */
export class InvalidArgumentError extends TickwheelError {
    constructor(message: string, options?: ErrorOptions) {
        super("invalid_argument", message, false, options);
    }
}

/** A value does not fit its schema. */
export class ValidationError extends TickwheelError {
    /** What is wrong, and where. */
    readonly issues: ReadonlyArray<{ readonly message: string; readonly path: string }>;

    constructor(subject: string, issues: ReadonlyArray<{ message: string; path: string }>) {
        const texts = issues.map(({ message, path }) => (path ? `${path}: ${message}` : message));
        super("invalid_value", `${subject} does not fit its schema: ${texts.join("; ")}`, false);
        this.issues = issues;
    }
}

/** A task whose result was waited for has ended otherwise. */
export class TaskNotSucceededError extends TickwheelError {
    readonly task: Task;

    constructor(task: Task) {
        super("task_not_succeeded", `task ${task.id} is ${task.state}${task.error ? `: ${task.error}` : ""}`, false);
        this.task = task;
    }
}

/** Returns the error of a problem document. */
export function ofProblem(problem: Problem, retryAfter?: number): ServiceError {
    if (problem.status === 404) return new NotFoundError(problem, retryAfter);
    const later = problem.retryable || problem.status >= 500;
    return later ? new UnavailableError(problem, retryAfter) : new RefusedError(problem, retryAfter);
}

/** Tells whether a call that failed may have taken effect. */
export function mayHaveTakenEffect(error: unknown): boolean {
    if (error instanceof ConnectionError || error instanceof TimeoutError) return error.sent;
    return error instanceof ServiceError && error.code === "outcome_unknown";
}
