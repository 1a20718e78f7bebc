import { InvalidArgumentError } from "./errors.js";
import { Transport, addresses } from "./transport.js";

/** How long one server may take for an ordinary call. */
const SERVER_TIMEOUT = 10_000;

export interface ClientOptions {
    /** The API key that every call carries, `twk_...`; that of `TICKWHEEL_API_KEY` by default. */
    apiKey?: string | undefined;
    /** Further headers of every call, such as the token of a proxy in between. */
    headers?: Readonly<Record<string, string>> | undefined;
    /** How long a call may take with all its repetitions, in milliseconds; 30 s by default. */
    timeout?: number | undefined;
    /** How long one server may take for an ordinary call, in milliseconds; 10 s by default. */
    serverTimeout?: number | undefined;
    /** Makes the requests in place of the `fetch` of this runtime, for example with certificates of its own. */
    fetch?: typeof fetch | undefined;
}

/** Returns the way to a service: its servers, what every call carries, and what makes the calls. */
export function access(
    servers: string | readonly string[] = environment("TICKWHEEL_SERVER") ?? "http://127.0.0.1:7420",
    options: ClientOptions = {},
): { servers: string[]; headers: Record<string, string>; transport: Transport } {
    const apiKey = options.apiKey ?? environment("TICKWHEEL_API_KEY");
    if (apiKey !== undefined && !/^twk_\S+$/.test(apiKey)) {
        throw new InvalidArgumentError("the API key is not one: expected a text such as twk_0123456789abcdef_...");
    }
    const headers = { ...options.headers, ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }) };
    const read = addresses(servers);
    try {
        new Headers(headers);
    } catch {
        throw new InvalidArgumentError(`a header cannot be sent: one of ${Object.keys(headers).join(", ")}`);
    }
    const serverTimeout = options.serverTimeout ?? SERVER_TIMEOUT;
    const using: typeof fetch = options.fetch ?? ((input, init) => fetch(input, init));
    return {
        servers: read,
        headers,
        transport: new Transport({ servers: read, headers, serverTimeout, fetch: using }),
    };
}

function environment(name: string): string | undefined {
    try {
        return globalThis.process?.env?.[name] || undefined;
    } catch {
        // Deno has not been allowed to read it.
        return undefined;
    }
}
