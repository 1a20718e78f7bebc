import type { components, operations } from "./generated/schema.js";

/** The types of the API by their names in its description. */
export type Schemas = components["schemas"];
export type Task = Schemas["TaskResponse"];
export type TaskState = Schemas["TaskState"];
export type Problem = Schemas["Problem"];
export type ClaimedTask = Schemas["ClaimedTask"];
export type { operations };

/** Milliseconds, or a text such as `"90s"`, `"1h 30m"`, `"14d"`. */
export type Duration = number | string;

/** A time, as a `Date` or in the form of RFC 3339. */
export type Instant = Date | string;

type Durations =
    | "delay"
    | "expire_after"
    | "attempt_timeout"
    | "heartbeat_timeout"
    | "claim_timeout"
    | "retention"
    | "dead_retention";

/** A task to register: the fields of the API, with times and durations as JavaScript has them. */
export type NewTask = Omit<Schemas["TaskRequest"], Durations | "start_time" | "payload" | "children"> & {
    [Name in Durations]?: Duration | null;
} & {
    /** When it is to start; in the past means now. */
    start_time?: Instant | null;
    /** A value that JSON can hold, or bytes. */
    payload?: unknown;
    /** Its children, each a task with children of its own or none. */
    children?: NewTask[] | null;
};

/** The options of a call. */
export interface CallOptions {
    /** Ends the call: it rejects with the reason of the signal. */
    signal?: AbortSignal | undefined;
    /** How long the call may take with all its repetitions, in milliseconds; 30 s unless the client says otherwise. */
    timeout?: number | undefined;
}

type Parameters<O> = O extends { parameters: infer P } ? P : never;
type Optional<T> = { [K in keyof T]?: T[K] | undefined };
type Part<P, Name extends keyof P, As extends string> = P[Name] extends undefined
    ? unknown
    : undefined extends P[Name]
      ? { [K in As]?: Optional<NonNullable<P[Name]>> }
      : { [K in As]: P[Name] };
type Body<O> = O extends { requestBody: { content: { "application/json": infer B } } }
    ? { body: B }
    : O extends { requestBody?: { content: { "application/json": infer B } } }
      ? { body?: B }
      : unknown;

/** What an operation takes: parts of its path, its query, its headers, and its body. */
export type Request<Name extends keyof operations> = Part<
    Parameters<operations[Name]>,
    "path" & keyof Parameters<operations[Name]>,
    "path"
> &
    Part<Parameters<operations[Name]>, "query" & keyof Parameters<operations[Name]>, "query"> &
    Part<Parameters<operations[Name]>, "header" & keyof Parameters<operations[Name]>, "headers"> &
    Body<operations[Name]>;

type Content<R> = R extends { content: infer C }
    ? "application/octet-stream" extends keyof C
        ? ReadableStream<Uint8Array>
        : "application/json" extends keyof C
          ? C["application/json"]
          : string
    : undefined;
type Successes<O> = O extends { responses: infer R } ? R[keyof R & (200 | 201 | 202 | 204)] : never;

/** What an operation answers when it succeeds. */
export type Answer<Name extends keyof operations> = Content<Successes<operations[Name]>>;
