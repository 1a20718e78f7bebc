// Prints the table of operations for the client from the description that is its argument: method and path of each, and how
// its answer is read. `clients/typescript/generate` calls it.
import { readFileSync } from "node:fs";

const { paths } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const rows = [];
for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { operationId, parameters = [], responses }] of Object.entries(methods)) {
        const media = Object.entries(responses)
            .filter(([status]) => status.startsWith("2"))
            .flatMap(([, { content = {} }]) => Object.keys(content));
        const row = { method: method.toUpperCase(), path };
        if (media.some((one) => ["application/octet-stream", "text/event-stream"].includes(one))) row.streams = true;
        if (parameters.some(({ name }) => name === "idempotency-key")) row.marked = true;
        rows.push([operationId, row]);
    }
}
rows.sort(([one], [other]) => (one < other ? -1 : 1));
console.log(`// This file was generated from schemas/openapi.json by clients/typescript/generate. Do not change it.
import type { operations } from "./schema.js";

/** An operation of the API: \`streams\` with an answer that is read piece by piece, \`marked\` with an \`Idempotency-Key\`. */
export interface Operation {
    readonly method: "GET" | "POST" | "PUT" | "DELETE";
    readonly path: string;
    readonly streams?: boolean;
    readonly marked?: boolean;
}

export const table: { readonly [Name in keyof operations]: Operation } = {`);
for (const [name, row] of rows) console.log(`    ${name}: ${JSON.stringify(row)},`);
console.log("};");
