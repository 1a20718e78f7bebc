import { createServer } from "node:net";
import { after } from "node:test";
import { Client, type ClientOptions, Worker, type WorkerOptions } from "tickwheel";
import { type Service, startService } from "tickwheel/testing";

let service: Promise<Service> | undefined;

/** The service of this file of tests. */
export function shared(): Promise<Service> {
    service ??= startService({ testClock: false });
    return service;
}

after(async () => (await service)?.stop());

export async function client(options?: ClientOptions): Promise<Client> {
    return new Client((await shared()).url, options);
}

let names = 0;

/** A name that no other test has. */
export function unique(name: string): string {
    names += 1;
    return `${name}-${process.pid}-${names}`;
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until a question has an answer, for ten seconds at most. */
export async function until<T>(
    what: string,
    ask: () => T | undefined | false | Promise<T | undefined | false>,
    limit = 10_000,
): Promise<T> {
    const end = performance.now() + limit;
    for (;;) {
        const answer = await ask();
        if (answer !== undefined && answer !== false) return answer;
        if (performance.now() > end) throw new Error(`waited in vain: ${what}`);
        await pause(20);
    }
}

const silent = { warn: () => {}, error: () => {} };

/** A worker that says nothing, and leaves the signals of the process alone. */
export async function worker(options: WorkerOptions = {}): Promise<Worker> {
    return new Worker((await shared()).url, { logger: silent, signals: false, ...options });
}

/** An address of this machine at which nothing listens. */
export async function nowhere(): Promise<string> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    await new Promise((resolve) => server.close(resolve));
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
}
