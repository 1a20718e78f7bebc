import { TickwheelError } from "./errors.js";
import { bytes } from "./tasks.js";

/** Seconds by which the time of a message may differ from the clock of this machine. */
const TOLERANCE = 300;

/** A request is not signed with the secret, or not now: answer it with 401, or another status of 400 to 499. */
export class WebhookError extends TickwheelError {
    constructor(code: "missing_header" | "outside_tolerance" | "wrong_signature" | "not_json", message: string) {
        super(code, message, false);
    }
}

/** A message that was verified. */
export interface Webhook<Payload = unknown> {
    /** The id of the task, the same on every attempt: drop what you have seen. */
    id: string;
    /** When it was sent. */
    timestamp: Date;
    /** The number of the attempt, from 1. */
    attempt: number;
    payload: Payload;
}

type Bytes = Uint8Array<ArrayBuffer>;
type HeaderBag = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Verifies a request that the service has sent (https://www.standardwebhooks.com), and returns its message.
 *
 * `body` is what came, byte for byte: not what a framework has read from it. `secrets` are those of the callback, `whsec_...`;
 * of several, one has to fit, so that a secret can be replaced.
 */
export async function verify<Payload = unknown>(
    body: string | Uint8Array,
    headers: HeaderBag,
    secrets: string | readonly string[],
    options: { tolerance?: number; now?: Date } = {},
): Promise<Webhook<Payload>> {
    const id = header(headers, "webhook-id");
    const timestamp = header(headers, "webhook-timestamp");
    const signatures = header(headers, "webhook-signature");
    const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN;
    const now = (options.now?.getTime() ?? Date.now()) / 1000;
    if (!(Math.abs(now - seconds) <= (options.tolerance ?? TOLERANCE))) {
        throw new WebhookError(
            "outside_tolerance",
            `the message is of ${timestamp}, which is too far from now: is the clock right?`,
        );
    }
    const encoder = new TextEncoder();
    const content = typeof body === "string" ? encoder.encode(body) : body;
    const head = encoder.encode(`${id}.${timestamp}.`);
    const signed = new Uint8Array(head.length + content.length);
    signed.set(head);
    signed.set(content, head.length);
    if (!(await fits(signed, signatures, typeof secrets === "string" ? [secrets] : secrets))) {
        throw new WebhookError("wrong_signature", "no signature of the message fits the secret");
    }
    const attempt = Number(find(headers, "tickwheel-attempt") ?? 1);
    return { id, timestamp: new Date(seconds * 1000), attempt, payload: read<Payload>(content) };
}

async function fits(signed: Bytes, signatures: string, secrets: readonly string[]): Promise<boolean> {
    const given = signatures.split(" ").filter((text) => text.startsWith("v1,"));
    let found = false;
    for (const secret of secrets) {
        const key = await crypto.subtle.importKey("raw", keyOf(secret), { name: "HMAC", hash: "SHA-256" }, false, [
            "verify",
        ]);
        for (const text of given) {
            const signature = decoded(text.slice(3));
            // The comparison of the runtime takes the same time for each wrong signature.
            if (signature && (await crypto.subtle.verify("HMAC", key, signature, signed))) found = true;
        }
    }
    return found;
}

function keyOf(secret: string): Bytes {
    const key = decoded(secret.replace(/^whsec_/, ""));
    if (!key || key.length === 0)
        throw new TypeError("the secret is not one: expected a text such as whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    return key;
}

function decoded(text: string): Bytes | undefined {
    try {
        return bytes(text);
    } catch {
        return undefined;
    }
}

function read<Payload>(content: Uint8Array): Payload {
    if (content.length === 0) return undefined as Payload;
    try {
        return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content)) as Payload;
    } catch {
        throw new WebhookError("not_json", "the message is signed well, and is not JSON");
    }
}

function header(headers: HeaderBag, name: string): string {
    const found = find(headers, name);
    if (!found) throw new WebhookError("missing_header", `the request has no header ${name}`);
    return found;
}

function find(headers: HeaderBag, name: string): string | undefined {
    if (headers instanceof Headers) return headers.get(name) ?? undefined;
    const found = headers[name] ?? Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1];
    return typeof found === "string" ? found : found?.join(" ");
}
