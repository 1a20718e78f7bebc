import { durationText, readDuration } from "./durations.js";
import { InvalidArgumentError } from "./errors.js";
import type { Duration, Instant, NewTask } from "./types.js";

/** When a task is to start: at a time, or so long from now. */
export type NewStart = { start_time: Instant } | { delay: Duration };

const DURATIONS = [
    "delay",
    "expire_after",
    "attempt_timeout",
    "heartbeat_timeout",
    "claim_timeout",
    "retention",
    "dead_retention",
] as const;

/** Returns a copy of a task in the form of the API: durations as texts, bytes as base64. Times become texts as JSON. */
export function written(task: NewTask): NewTask {
    const copy: NewTask = { ...task };
    for (const name of DURATIONS) {
        const duration = copy[name];
        if (typeof duration === "number") copy[name] = durationText(duration);
    }
    if (copy.start_time instanceof Date) copy.start_time = timeText(copy.start_time);
    if (copy.payload instanceof Uint8Array) {
        copy.payload_base64 = base64(copy.payload);
        delete copy.payload;
    }
    if (copy.children) copy.children = copy.children.map(written);
    if (copy.then) copy.then = copy.then.map((next) => ({ ...next, task: written(next.task) as typeof next.task }));
    return copy;
}

/** Returns a value as JSON. */
export function toJson(value: unknown): string {
    try {
        return JSON.stringify(value);
    } catch (error) {
        throw new InvalidArgumentError(`not JSON: ${error instanceof Error ? error.message : error}`, { cause: error });
    }
}

/** Returns bytes as base64. */
export function base64(bytes: Uint8Array): string {
    let text = "";
    for (let from = 0; from < bytes.length; from += 8192)
        text += String.fromCharCode(...bytes.subarray(from, from + 8192));
    return btoa(text);
}

/** Returns the bytes of a text in base64. */
export function bytes(text: string): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Returns a start in the form of the API. */
export function startFields(start: NewStart): { start_time?: string; delay?: string } {
    if ("delay" in start) {
        if (typeof start.delay === "number") readDuration(start.delay, "delay");
        return { delay: durationText(start.delay) };
    }
    return { start_time: timeText(start.start_time) };
}

/** Returns a time as the API writes it. */
export function timeText(at: Instant): string {
    if (typeof at === "string") return at;
    if (Number.isNaN(at.getTime())) throw new InvalidArgumentError("a time is not valid: its `Date` is none");
    return at.toISOString();
}
