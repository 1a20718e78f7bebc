import type * as OpenTelemetry from "@opentelemetry/api";

type Api = typeof OpenTelemetry;

let api: Api | null | undefined;
let loading: Promise<void> | undefined;

/** Looks once whether OpenTelemetry is installed; undefined when that is known. */
export function tracingReady(): Promise<void> | undefined {
    if (api !== undefined) return undefined;
    // The name is no constant of the import, so that bundlers do not look for a package that need not be there.
    const name = "@opentelemetry/api";
    loading ??= import(/* webpackIgnore: true */ /* @vite-ignore */ name).then(
        (found: Api) => void (api = found),
        () => void (api = null),
    );
    return loading;
}

/** Names the trace that is active here: calls of one trace may travel together. Empty without one. */
export function activeTrace(): string {
    const active = api?.trace.getActiveSpan()?.spanContext();
    return active && api?.isSpanContextValid(active) ? `${active.traceId}-${active.spanId}-${active.traceFlags}` : "";
}

/** Makes a request of a producer as a span of the trace that `activeTrace` named; `send` gets the headers that carry it. */
export async function producing<T>(
    span: string,
    trace: string,
    send: (headers: Record<string, string>) => Promise<T>,
): Promise<T> {
    if (!api) return send({});
    const { SpanKind, ROOT_CONTEXT, trace: traces } = api;
    const [traceId = "", spanId = "", flags = "0"] = trace.split("-");
    const parent = trace
        ? traces.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: Number(flags) })
        : ROOT_CONTEXT;
    return within(api, parent, span, SpanKind.PRODUCER, {}, send);
}

/** Runs a handler as a span of the trace that registered its task. */
export async function consuming<T>(
    span: string,
    traceparent: string | null | undefined,
    attributes: Record<string, string | number>,
    run: () => Promise<T>,
): Promise<T> {
    if (!api) return run();
    const { ROOT_CONTEXT, SpanKind, propagation } = api;
    const parent = traceparent ? propagation.extract(ROOT_CONTEXT, { traceparent }) : ROOT_CONTEXT;
    return within(api, parent, span, SpanKind.CONSUMER, attributes, run);
}

function within<T>(
    found: Api,
    parent: OpenTelemetry.Context,
    name: string,
    kind: OpenTelemetry.SpanKind,
    attributes: Record<string, string | number>,
    run: (headers: Record<string, string>) => Promise<T>,
): Promise<T> {
    const { SpanStatusCode, context, propagation, trace } = found;
    const span = trace.getTracer("tickwheel").startSpan(name, { kind, attributes }, parent);
    const active = trace.setSpan(parent, span);
    const headers: Record<string, string> = {};
    propagation.inject(active, headers);
    const failed = (error: unknown) => {
        span.recordException(error instanceof Error ? error : String(error));
        span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.message : String(error) });
        throw error;
    };
    return context.with(active, () =>
        run(headers)
            .catch(failed)
            .finally(() => span.end()),
    );
}
