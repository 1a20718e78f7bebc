import type { ClaimedTask, Schemas } from "../types.js";

/** The task that a follow-up follows, as it ended. */
export type Previous = Schemas["PreviousResponse"];

/** A task that the handler's task waited for, with its result if that is small. */
export type Dependency = Schemas["DependencyResponse"];

/** A claimed task as its handler gets it. */
export interface Job<Payload = unknown> {
    readonly id: string;
    /** The number of the attempt, from 1. With `id` it is the fencing token: hand both to every system that the handler changes. */
    readonly attempt: number;
    readonly maxAttempts: number;
    readonly callback: string;
    readonly payload: Payload;
    /** When the task was to start. */
    readonly startTime: Date;
    readonly labels: Readonly<Record<string, string>>;
    /** The task that it follows, if it is a follow-up. */
    readonly previous: Previous | undefined;
    /** The tasks that it waited for, in the order of their ids. */
    readonly dependencies: readonly Dependency[];
    /** The schedule that the task is a run of. */
    readonly schedule: string | undefined;
    /** The time of the schedule that the run stands for. */
    readonly scheduledTime: Date | undefined;
    /** All that the service says of the task. */
    readonly task: ClaimedTask;
    /**
     * Aborted when the handler should end: its lease is lost, somebody cancelled the task, it takes too long, or the worker
     * stops. The reason is a `TickwheelError` with the code `lease_lost`, `cancelled`, `timed_out` or `stopping`.
     */
    readonly signal: AbortSignal;
    /** Notes how far the handler is: JSON of up to 4096 bytes, sent with the next heartbeat and shown with the task. */
    progress(note: unknown): void;
}
