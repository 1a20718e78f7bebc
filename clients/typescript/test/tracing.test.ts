import assert from "node:assert/strict";
import { test } from "node:test";
import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { client, pause, unique, until, worker } from "./support.js";

const exporter = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());

test("one trace goes from the producer to the attempt", async () => {
    const tasks = await client();
    const callback = unique("traced");
    let seen: string | undefined;
    await using running = await worker();
    void running
        .task(callback, async () => {
            await pause(1);
            seen = trace.getActiveSpan()?.spanContext().traceId;
            throw new Error("on purpose");
        })
        .run();
    const [id, traceId] = await trace.getTracer("test").startActiveSpan("order", async (span) => {
        const task = await tasks.register({ callback, max_attempts: 1 });
        span.end();
        return [task.id, span.spanContext().traceId] as const;
    });
    await tasks.wait(id);
    assert.equal(seen, traceId);
    const spans = await until("both spans have ended", () => {
        const found = exporter.getFinishedSpans().filter((span) => span.spanContext().traceId === traceId);
        return found.length === 3 && found;
    });
    const attempt = spans.find(({ name }) => name === `${callback} process`);
    assert.equal(attempt?.attributes["tickwheel.task.id"], id);
    assert.equal(attempt?.status.message, "on purpose");
    assert.ok(spans.some(({ name }) => name === "tickwheel register"));
});

test("registrations of one trace travel together, those of others apart", async () => {
    const tasks = await client();
    const callback = unique("apart");
    exporter.reset();
    const orders = await Promise.all(
        ["one", "two"].map((name) =>
            trace.getTracer("test").startActiveSpan(name, async (span) => {
                await Promise.all(Array.from({ length: 20 }, () => tasks.register({ callback, delay: "1h" })));
                span.end();
                return span.spanContext().traceId;
            }),
        ),
    );
    const requests = exporter.getFinishedSpans().filter(({ name }) => name === "tickwheel register");
    assert.ok(requests.length < 10, `${requests.length} requests`);
    assert.deepEqual(new Set(requests.map((span) => span.spanContext().traceId)), new Set(orders));
});
