import { InvalidArgumentError } from "./errors.js";
import type { Duration } from "./types.js";

const UNITS: Readonly<Record<string, number>> = {
    ms: 1,
    s: 1000,
    m: 60_000,
    h: 3_600_000,
    d: 86_400_000,
    w: 7 * 86_400_000,
};

/** Returns a duration as the API writes it. */
export function durationText(duration: Duration): string {
    if (typeof duration === "string") return duration;
    if (!Number.isFinite(duration) || duration < 0) {
        throw new InvalidArgumentError(
            `${duration} is not a duration: expected milliseconds from 0 on, or a text such as "90s"`,
        );
    }
    return `${Math.round(duration)}ms`;
}

/** Reads a duration in its usual spelling, in milliseconds; undefined for one that only the service reads, such as `PT1M`. */
export function milliseconds(duration: Duration): number | undefined {
    if (typeof duration === "number") return duration;
    let total = 0;
    const rest = duration.replace(/(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)(?![a-z])\s*/g, (_, count: string, unit: string) => {
        total += Number(count) * (UNITS[unit] ?? 0);
        return "";
    });
    return rest.trim() === "" && duration.trim() !== "" ? Math.round(total) : undefined;
}

/** Reads a duration that the program gave or the service answered; an error when it is none. */
export function readDuration(duration: Duration, name: string): number {
    const read = milliseconds(duration);
    if (read === undefined || !Number.isFinite(read) || read < 0) {
        throw new InvalidArgumentError(
            `${name} is not a duration: ${JSON.stringify(duration)}; expected milliseconds or a text such as "90s"`,
        );
    }
    return read;
}
