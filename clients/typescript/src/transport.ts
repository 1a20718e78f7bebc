import { Backoff, TIMER_MAX, sleep } from "./backoff.js";
import {
    ConnectionError,
    InvalidArgumentError,
    TimeoutError,
    TickwheelError,
    UnavailableError,
    UnexpectedAnswerError,
    mayHaveTakenEffect,
    ofProblem,
} from "./errors.js";
import type { Problem } from "./types.js";

/** Characters of an answer that is not understood which its error quotes. */
const QUOTED = 200;
/** Failures that come before anything was sent, by their codes in Node.js, Deno and Bun. */
const NOT_SENT = new Set([
    "ECONNREFUSED",
    "ENOTFOUND",
    "EAI_AGAIN",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "UND_ERR_CONNECT_TIMEOUT",
    "ConnectionRefused",
    "FailedToOpenSocket",
]);

export interface TransportOptions {
    servers: readonly string[];
    headers: Readonly<Record<string, string>>;
    /** How long one server may take for an ordinary call, in milliseconds. */
    serverTimeout: number;
    fetch: typeof fetch;
}

/** A call to make. */
export interface Call {
    method: string;
    /** Path and query, from the slash. */
    path: string;
    body?: string | undefined;
    headers?: Readonly<Record<string, string>> | undefined;
    /** Whether sending it twice does no harm. */
    repeatable: boolean;
    /** How long it may take with all its repetitions, in milliseconds. */
    timeout: number;
    /** How much longer than usual a server may take, since it waits on purpose. */
    wait?: number | undefined;
    signal?: AbortSignal | undefined;
    /** Each server is asked once at most, for callers that repeat the call themselves. */
    once?: boolean | undefined;
    /** The body of the answer is left for the caller to read. */
    streams?: boolean | undefined;
}

/** An answer of success. */
export interface Reply {
    server: string;
    status: number;
    headers: Headers;
    text: string;
    body: ReadableStream<Uint8Array> | null;
}

/**
 * Makes calls at the first server that answers, and repeats them while that does no harm and their time lasts.
 *
 * The servers are tried in order, beginning with the one that answered last. An answer of 429 or 503 is waited out as long as
 * it says. A call that may have taken effect is repeated only where a second one changes nothing.
 */
export class Transport {
    readonly #options: TransportOptions;
    #preferred = 0;

    constructor(options: TransportOptions) {
        this.#options = options;
    }

    async send(call: Call): Promise<Reply> {
        const end = performance.now() + call.timeout;
        const backoff = new Backoff();
        const { servers } = this.#options;
        for (let tried = 1; ; tried += 1) {
            const place = this.#preferred;
            let error: TickwheelError;
            try {
                return await this.#once(servers[place] ?? "", call, end);
            } catch (caught) {
                if (!mayRepeat(caught, call.repeatable)) throw caught;
                error = caught;
            }
            this.#preferred = (place + 1) % servers.length;
            // Each server is asked once before any wait. A connection that broke may have been closed while it was idle.
            const broke = tried === 1 && !call.once && error instanceof ConnectionError && error.sent;
            if ((broke || tried % servers.length !== 0) && performance.now() < end) continue;
            if (call.once) throw error;
            const asked = error instanceof UnavailableError ? error.retryAfter : undefined;
            const wait = backoff.next(asked);
            if (performance.now() + wait >= end) throw error;
            await sleep(wait, call.signal);
        }
    }

    async #once(server: string, call: Call, end: number): Promise<Reply> {
        call.signal?.throwIfAborted();
        const limit = Math.max(1, Math.min(this.#options.serverTimeout + (call.wait ?? 0), end - performance.now()));
        const stop = new AbortController();
        const aborted = () => stop.abort(call.signal?.reason);
        call.signal?.addEventListener("abort", aborted, { once: true });
        const timeout = new TimeoutError(`no answer from ${server} within ${Math.round(limit)} ms`, true);
        const timer = setTimeout(() => stop.abort(timeout), Math.min(limit, TIMER_MAX));
        try {
            const response = await this.#options.fetch(server + call.path, {
                method: call.method,
                headers: {
                    ...this.#options.headers,
                    ...(call.body === undefined ? {} : { "content-type": "application/json" }),
                    ...call.headers,
                },
                body: call.body ?? null,
                redirect: "manual",
                signal: stop.signal,
            });
            const streams = call.streams === true && response.ok;
            const text = streams ? "" : await response.text();
            if (!response.ok) throw refusal(server, response, text);
            return {
                server,
                status: response.status,
                headers: response.headers,
                text,
                body: streams ? response.body : null,
            };
        } catch (error) {
            if (stop.signal.aborted) throw stop.signal.reason;
            throw broken(server, error);
        } finally {
            clearTimeout(timer);
            // An answer that is still read can be ended by the caller.
            if (!call.streams) call.signal?.removeEventListener("abort", aborted);
        }
    }
}

function mayRepeat(error: unknown, repeatable: boolean): error is TickwheelError {
    if (error instanceof ConnectionError || error instanceof TimeoutError) return repeatable || !error.sent;
    return error instanceof UnavailableError && error.retryable && (repeatable || !mayHaveTakenEffect(error));
}

/** Returns the error for an answer that is not a success. */
function refusal(server: string, response: Response, text: string): TickwheelError {
    const problem = readProblem(text);
    if (problem) return ofProblem({ ...problem, status: response.status }, retryAfter(response.headers));
    const { status } = response;
    if (status >= 300 && status < 400) {
        const to = response.headers.get("location") ?? "another place";
        return new UnexpectedAnswerError(`${server} redirects to ${to}: give that address, if it is the service`);
    }
    const seen = `${server} answered ${status}: ${quoted(text)}`;
    // The answers of a proxy whose server is away.
    if (status === 502 || status === 503 || status === 504) return new ConnectionError(seen, true);
    if (status === 429) return new UnavailableError(tooMany(seen), retryAfter(response.headers));
    return new UnexpectedAnswerError(seen);
}

/** A proxy in between may refuse as well, in words of its own. */
function tooMany(detail: string): Problem {
    return {
        type: "about:blank",
        title: "Too many requests",
        status: 429,
        detail,
        code: "too_many_requests",
        retryable: true,
    };
}

function readProblem(text: string): Problem | undefined {
    try {
        const read: Partial<Problem> | null = JSON.parse(text);
        const fits =
            typeof read?.code === "string" && typeof read.detail === "string" && typeof read.retryable === "boolean";
        return fits ? (read as Problem) : undefined;
    } catch {
        return undefined;
    }
}

function retryAfter(headers: Headers): number | undefined {
    const text = headers.get("retry-after")?.trim();
    if (!text) return undefined;
    const seconds = Number(text);
    if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
    const at = Date.parse(text);
    return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

/** Returns the error for a request that was not answered. Each runtime says in its own way why. */
function broken(server: string, error: unknown): unknown {
    if (error instanceof TickwheelError || !(error instanceof Error)) return error;
    const cause = error.cause as (Error & { errors?: Error[] }) | undefined;
    const failures = [...(cause?.errors ?? []), cause, error].filter((failure) => failure instanceof Error) as Array<
        Error & { code?: string }
    >;
    if (cause?.message === "bad port")
        return new InvalidArgumentError(`${server}: this runtime makes no requests to such a port`);
    const known = failures.filter(({ code }) => typeof code === "string");
    const notSent =
        known.length > 0
            ? known.every(({ code = "" }) => NOT_SENT.has(code))
            : /connection refused|dns error/i.test(error.message);
    const why = failures.find(({ message }) => message)?.message ?? "no reason was given";
    return new ConnectionError(`no answer from ${server}: ${why}`, !notSent, { cause: error });
}

/** Reads the JSON of an answer. */
export function readJson<T>({ server, text }: Reply): T {
    try {
        return JSON.parse(text) as T;
    } catch {
        throw new UnexpectedAnswerError(`the answer of ${server} is not JSON: ${quoted(text)}`);
    }
}

export function quoted(text: string): string {
    return JSON.stringify(text.slice(0, QUOTED));
}

/** Returns the addresses of servers, of which one text may name several. */
export function addresses(servers: string | readonly string[]): string[] {
    const texts = (typeof servers === "string" ? [servers] : servers).flatMap((list) => list.split(","));
    const read = texts.map((text) => text.trim().replace(/\/+$/, "")).filter((text) => text !== "");
    if (read.length === 0)
        throw new InvalidArgumentError("no server was given: expected an address such as http://127.0.0.1:7420");
    return read.map((text) => {
        const address = text.includes("://") ? text : `http://${text}`;
        if (!/^https?:$/.test(URL.canParse(address) ? new URL(address).protocol : "")) {
            throw new InvalidArgumentError(
                `${JSON.stringify(text)} is not the address of a server: expected one such as http://127.0.0.1:7420`,
            );
        }
        return address;
    });
}
