import { createHmac, timingSafeEqual } from "node:crypto";

/** The format of the messages that this package reads (`docs/kafka-message.md` of the service). */
export const CONTENT_TYPE = "application/protobuf;type=tickwheel.v1.TaskMessage";
const SIGNATURE = "tickwheel-signature";

const [NUMBER, FIXED_64, BYTES, FIXED_32] = [0, 1, 2, 5];
/** Payload, media type and trace are read here; a content with more is answered with the claim. */
const READ_HERE: ReadonlySet<string> = new Set([`1:${BYTES}`, `2:${BYTES}`, `6:${BYTES}`]);

export type Headers = ReadonlyMap<string, Buffer>;

/** A record that a worker has to pass over: of a later format, unsigned, or no task. */
export class Unreadable extends Error {}

/** What a task carries. */
export interface Content {
    payload: Buffer;
    contentType: string;
    traceParent: string | undefined;
}

/** The part of a message that a worker needs. It says that an attempt is due; the right to run it is the claim. */
export interface TaskMessage {
    id: string;
    generation: number;
    expectedAttempt: number;
    /** Milliseconds since 1970: not to be claimed before. */
    start: number;
    callback: string;
    maxAttempts: number;
    /** In milliseconds. */
    heartbeatTimeout: number;
    /** Undefined where the claim has to bring it. */
    content: Content | undefined;
}

/** Reads the headers and the value of a record. A record to pass over is an `Unreadable`. */
export function readMessage(headers: Headers, value: Buffer): TaskMessage {
    const kind = headers.get("content-type")?.toString();
    if (kind !== CONTENT_TYPE) throw new Unreadable(`its content-type is ${JSON.stringify(kind)}`);
    const message = fields(value);
    const spec = fields(bytes(message, 6));
    const id = bytes(message, 1);
    if (id.length !== 16 || !spec.has(`1:${BYTES}`)) throw new Unreadable("it has no id, or is of no callback");
    return {
        id: id.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5"),
        generation: number(message, 2),
        expectedAttempt: number(message, 3),
        start: Number(BigInt.asIntN(64, wide(message, 4))),
        callback: text(bytes(fields(bytes(spec, 1)), 1)),
        maxAttempts: number(spec, 5),
        heartbeatTimeout: number(spec, 8),
        content: spec.has(`12:${BYTES}`) ? content(fields(bytes(spec, 12))) : undefined,
    };
}

/** Checks that a service with this key has written a record: its topic, its key and its value. */
export function checkSignature(
    key: string,
    topic: string,
    name: Buffer | null | undefined,
    value: Buffer,
    headers: Headers,
): void {
    const named = name ?? Buffer.alloc(0);
    const signed = Buffer.concat([Buffer.from(`${topic}\n${named.length}\n`), named, value]);
    const wanted = Buffer.from(`v1,${createHmac("sha256", key).update(signed).digest("base64")}`);
    const given = headers.get(SIGNATURE) ?? Buffer.alloc(0);
    const isRight = given.length === wanted.length && timingSafeEqual(given, wanted);
    if (!isRight) throw new Unreadable("it has no signature of the service");
}

type Fields = ReadonlyMap<string, bigint | Buffer>;

function content(found: Fields): Content | undefined {
    for (const name of found.keys()) if (!READ_HERE.has(name)) return undefined;
    const traceParent = text(bytes(found, 6)) || undefined;
    return { payload: bytes(found, 1), contentType: text(bytes(found, 2)), traceParent };
}

/** Reads the fields of a protobuf message, by number and wire type; of a repeated field the last one. */
function fields(data: Buffer): Fields {
    const found = new Map<string, bigint | Buffer>();
    let at = 0;
    const varint = (): bigint => {
        let read = 0n;
        for (let shift = 0n; shift < 70n && at < data.length; shift += 7n) {
            const byte = data[at++] ?? 0;
            read |= BigInt(byte & 0x7f) << shift;
            if (byte < 0x80) return BigInt.asUintN(64, read);
        }
        throw new Unreadable("it ends within a number");
    };
    while (at < data.length) {
        const tag = varint();
        const [field, wire] = [tag >> 3n, Number(tag & 7n)];
        if (field === 0n) throw new Unreadable("it has a field of number 0");
        if (wire === NUMBER) {
            found.set(`${field}:${wire}`, varint());
            continue;
        }
        if (wire !== BYTES && wire !== FIXED_64 && wire !== FIXED_32)
            throw new Unreadable(`it has a field of wire type ${wire}`);
        const length = wire === BYTES ? Number(varint()) : wire === FIXED_64 ? 8 : 4;
        if (at + length > data.length) throw new Unreadable("it is cut");
        found.set(`${field}:${wire}`, data.subarray(at, at + length));
        at += length;
    }
    return found;
}

function wide(found: Fields, field: number): bigint {
    const value = found.get(`${field}:${NUMBER}`);
    return typeof value === "bigint" ? value : 0n;
}

function number(found: Fields, field: number): number {
    return Number(wide(found, field));
}

function bytes(found: Fields, field: number): Buffer {
    const value = found.get(`${field}:${BYTES}`);
    return Buffer.isBuffer(value) ? value : Buffer.alloc(0);
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function text(data: Buffer): string {
    try {
        return decoder.decode(data);
    } catch {
        throw new Unreadable("it has a text that is not UTF-8");
    }
}
