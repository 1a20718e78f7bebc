import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";

export interface Asked {
    method: string;
    path: string;
    body: string;
    headers: IncomingMessage["headers"];
}

/** A server that answers as a test says, and remembers what it was asked. */
export class Fake implements AsyncDisposable {
    readonly asked: Asked[] = [];
    url = "";
    readonly #server: Server;

    constructor(answer: (asked: Asked, response: ServerResponse) => unknown) {
        this.#server = createServer((request, response) => {
            const chunks: Buffer[] = [];
            request.on("data", (chunk: Buffer) => chunks.push(chunk));
            request.on("end", () => {
                const { method = "", url: path = "", headers } = request;
                const asked = { method, path, headers, body: Buffer.concat(chunks).toString() };
                this.asked.push(asked);
                void answer(asked, response);
            });
        });
    }

    async listen(): Promise<this> {
        await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
        const address = this.#server.address();
        if (address !== null && typeof address === "object") this.url = `http://127.0.0.1:${address.port}`;
        return this;
    }

    async [Symbol.asyncDispose](): Promise<void> {
        this.#server.closeAllConnections();
        await new Promise((resolve) => this.#server.close(resolve));
    }
}

export function json(
    response: ServerResponse,
    status: number,
    body: unknown,
    headers: Record<string, string> = {},
): void {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
}

export function problem(status: number, code: string, retryable: boolean): object {
    return {
        type: `/problems/${code}`,
        title: code,
        status,
        detail: `it is ${code}`,
        code,
        retryable,
        trace_id: "0".repeat(32),
    };
}

/** What a service answers to the question for what ids are made of. */
export const facts = (): object => ({ wheels: 4, time: new Date().toISOString() });

/** Answers a batch of registrations as a service does. */
export function registered(body: string): { results: object[] } {
    const { tasks } = JSON.parse(body) as { tasks: { id?: string; callback: string }[] };
    return {
        results: tasks.map(({ id = "none", callback }) => ({
            outcome: "created",
            task: { id, state: "scheduled", target: { type: "callback", name: callback } },
        })),
    };
}
