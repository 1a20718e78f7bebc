// The TypeScript client that is generated from the description, at work on the service whose address is its argument: it
// registers, reads and cancels a task.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const client = createClient<paths>({ baseUrl: process.argv[2] ?? "" });

function check(holds: boolean, seen: unknown): asserts holds {
    if (!holds) throw new Error(`not as expected: ${JSON.stringify(seen)}`);
}

/** Tells where a task goes; the compiler knows the members of each kind of target. */
function place(target: components["schemas"]["TargetResponse"]): string {
    switch (target.type) {
        case "callback":
            return target.name;
        case "http":
            return target.url;
        case "kafka":
            return target.topic;
    }
}

async function registersReadsAndCancels(body: components["schemas"]["TaskRequest"], expected: string): Promise<number> {
    const made = await client.POST("/v1/tasks", { body });
    check(made.data !== undefined, made.error);
    const path = { id: made.data.id };
    const read = await client.GET("/v1/tasks/{id}", { params: { path } });
    check(read.data !== undefined, read.error);
    check(place(read.data.target) === expected, read.data);
    const cancelled = await client.POST("/v1/tasks/{id}/cancel", { params: { path } });
    check(cancelled.data?.outcome === "cancelled" && cancelled.data.task.state === "cancelled", cancelled);
    return read.data.max_attempts;
}

const name = "reminder";
const configured = await client.PUT("/v1/callbacks/{name}", { params: { path: { name } }, body: { max_attempts: 3 } });
check(configured.data?.max_attempts === 3, configured);
const attempts = await registersReadsAndCancels({ callback: name, delay: "1h" }, name);
check(attempts === 3, attempts);
const url = "http://127.0.0.1:9/reminder";
await registersReadsAndCancels({ http: { url }, delay: "1h" }, url);
console.log("the client in TypeScript registers, reads and cancels a task");
