import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type Client, TickwheelError, UnexpectedAnswerError, type operations } from "tickwheel";
import { startService } from "tickwheel/testing";

interface Described {
    operationId: string;
    parameters?: { name: string; in: string; required?: boolean; example?: string }[];
    requestBody?: { content: Record<string, { example?: unknown }> };
}

const description = JSON.parse(readFileSync(new URL("../../../../schemas/openapi.json", import.meta.url), "utf8")) as {
    paths: Record<string, Record<string, Described>>;
};
const described = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
);

/** Calls that make the rest impossible without a key: they come last. */
const LAST = ["createApiKey", "revokeApiKey", "importConfiguration"];

test("every operation of the description can be called, and reaches its own route", async () => {
    await using service = await startService();
    const seen: string[] = [];
    const client: Client = service.client({
        fetch: (input, init) => {
            seen.push(`${init?.method} ${new URL(String(input)).pathname}`);
            return fetch(input, init);
        },
    });
    const ordered = described.toSorted(
        (one, other) => LAST.indexOf(one.operation.operationId) - LAST.indexOf(other.operation.operationId),
    );
    for (const { path, method, operation } of ordered) {
        const parts = (operation.parameters ?? []).filter((parameter) => parameter.in === "path");
        const values = Object.fromEntries(parts.map(({ name, example = "x" }) => [name, example]));
        const body = Object.values(operation.requestBody?.content ?? {})[0]?.example;
        const name = operation.operationId as keyof operations;
        try {
            const answer: unknown = await client.call(
                name,
                { path: values, body, ...(name === "getTask" ? { query: { view: "FULL" } } : {}) } as never,
                { timeout: 10_000 },
            );
            if (answer instanceof ReadableStream) await answer.cancel();
        } catch (error) {
            // An example names what this service does not have: that is a problem document, and no answer of another kind.
            assert.ok(
                error instanceof TickwheelError && !(error instanceof UnexpectedAnswerError),
                `${name}: ${error}`,
            );
        }
        const wanted = path.replace(/\{(\w+)\}/g, (_, part: string) => encodeURIComponent(values[part] ?? ""));
        assert.equal(seen.at(-1), `${method} ${wanted}`, name);
    }
    assert.equal(new Set(described.map(({ operation }) => operation.operationId)).size, described.length);
});

test("the client has the operations of the description, no more and no fewer", async () => {
    // The table is no part of what the package exports.
    const { table } = (await import(new URL("../../dist/generated/operations.js", import.meta.url).href)) as {
        table: object;
    };
    assert.deepEqual(Object.keys(table).toSorted(), described.map(({ operation }) => operation.operationId).toSorted());
});

test("answers that are no JSON are texts or streams", async () => {
    await using service = await startService();
    const client = service.client();
    assert.equal(await client.call("livez", {}), "ok\n");
    assert.match(await client.call("metrics", {}), /tickwheel_tasks_fired_total/);
    const backup = await client.call("createBackup", { body: {} });
    let bytes = 0;
    for await (const chunk of backup) bytes += chunk.byteLength;
    assert.ok(bytes > 0);
    const task = await client.register({ callback: "tree", delay: "1h", children: [{ callback: "tree" }] });
    assert.match(
        (await client.call("getTree", { path: { id: task.id }, query: { format: "svg" } })) as unknown as string,
        /<svg/,
    );
    assert.ok((await client.call("readyz", {})) !== undefined);
});

test("an API key is carried by every call, those of a worker's heartbeats too", async () => {
    await using service = await startService();
    const { key } = await service.client().apiKeys.create({ name: "ada", role: "admin" });
    await assert.rejects(
        async () => {
            for (;;) await service.client().register({ callback: "x", delay: "1h" });
        },
        (error) => error instanceof TickwheelError && error.code === "key_required",
    );
    const client = service.client({ apiKey: key ?? "" });
    assert.equal((await client.call("whoAmI", {})).name, "ada");
    assert.ok((await client.apiKeys.list().toArray()).length >= 1);
});
