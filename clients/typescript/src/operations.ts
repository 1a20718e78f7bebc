import { InvalidArgumentError } from "./errors.js";
import { table } from "./generated/operations.js";
import type { operations } from "./types.js";
import { toJson } from "./tasks.js";
import type { Call } from "./transport.js";

type Name = keyof operations;
type Values = Readonly<Record<string, unknown>>;

/** The calls that may be sent twice beside those that read, set and delete: a second one finds its work done. */
const REPEATABLE: ReadonlySet<Name> = new Set<Name>([
    "batchCancelTasks",
    "cancelTask",
    "cancelTaskByKey",
    "checkSchedule",
    "claim",
    "exportConfiguration",
    "heartbeat",
    "importConfiguration",
    "importSchedules",
    "leave",
    "pauseSchedule",
    "poll",
    "resumeSchedule",
    "setGate",
    "settle",
    "subscribe",
]);

/** Returns a call of an operation as it is sent, but for its time limit. */
export function written(name: Name, request: object): Omit<Call, "timeout"> {
    const { path: values = {}, query = {}, headers = {}, body } = request as Partial<Record<string, Values>>;
    const operation = table[name];
    const path = operation.path.replace(/\{(\w+)\}/g, (_, part: string) => {
        const value = values[part];
        if (typeof value !== "string" || value === "")
            throw new InvalidArgumentError(`${name} needs \`${part}\`: a text that is not empty`);
        return encodeURIComponent(value);
    });
    const sent = ofText(headers);
    // A call with a mark may be sent twice.
    if (operation.marked && !sent["idempotency-key"]) sent["idempotency-key"] = `tickwheel-ts-${crypto.randomUUID()}`;
    return {
        method: operation.method,
        path: path + queryText(query),
        body: body === undefined ? undefined : toJson(body),
        headers: sent,
        repeatable: operation.method !== "POST" || operation.marked === true || REPEATABLE.has(name),
        streams: operation.streams,
    };
}

function ofText(values: Values): Record<string, string> {
    const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
    return Object.fromEntries(given.map(([name, value]) => [name, text(value)]));
}

function queryText(query: Values): string {
    const parameters = new URLSearchParams(ofText(query)).toString();
    return parameters && `?${parameters}`;
}

function text(value: unknown): string {
    return value instanceof Date ? value.toISOString() : String(value);
}
