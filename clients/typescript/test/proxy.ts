import { type Server, type Socket, connect, createServer } from "node:net";

/** What a proxy does with the answer to a request. */
export type Fate = "pass" | "cut";

/**
 * A proxy that passes whole requests on, and cuts some connections behind the request: the service carries it out, and the
 * client gets no answer.
 */
export class Proxy implements AsyncDisposable {
    /** Decides about each request. */
    fate: (path: string) => Fate = () => "pass";
    cuts = 0;
    readonly #target: URL;
    readonly #server: Server;
    readonly #sockets = new Set<Socket>();

    constructor(target: string) {
        this.#target = new URL(target);
        this.#server = createServer((client) => this.#serve(client));
    }

    async listen(): Promise<string> {
        await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
        const address = this.#server.address();
        if (address === null || typeof address === "string") throw new Error("no port");
        return `http://127.0.0.1:${address.port}`;
    }

    #serve(client: Socket): void {
        const upstream = connect(Number(this.#target.port), this.#target.hostname);
        for (const socket of [client, upstream]) {
            this.#sockets.add(socket);
            socket.on("error", () => {});
            socket.on("close", () => {
                this.#sockets.delete(socket);
                client.destroy();
                upstream.destroy();
            });
        }
        let cuts = false;
        client.on("data", (chunk) => {
            const path = /^[A-Z]+ (\S+) HTTP/.exec(chunk.toString("latin1"))?.[1];
            if (path !== undefined) cuts = this.fate(path) === "cut";
            upstream.write(chunk);
        });
        upstream.on("data", (chunk) => {
            // The service has answered, so it has done its work: the answer is lost.
            if (!cuts) return client.write(chunk);
            this.cuts += 1;
            return client.destroy();
        });
    }

    async [Symbol.asyncDispose](): Promise<void> {
        for (const socket of this.#sockets) socket.destroy();
        await new Promise((resolve) => this.#server.close(resolve));
    }
}
