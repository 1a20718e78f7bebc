// A worker of the package for TypeScript that consumes Kafka, with the callback `ledger`, for a test against real servers.
//
// It writes each begin and each end of an attempt to the file that its argument names.
import { openSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { Outcome, Worker } from "tickwheel";
import { KafkaSource } from "tickwheel/kafka";

const ledger = openSync(process.argv[2], "a", 0o600);
const source = new KafkaSource({ brokers: [process.env.TICKWHEEL_KAFKA], client: { sessionTimeout: 6000, heartbeatInterval: 1000 } });
const worker = new Worker(undefined, { source, name: `${hostname()}/${process.pid}`, concurrency: 8 });

// One write a line, so that a line is whole however the process ends.
const write = (what, { id, attempt }) => writeSync(ledger, `${what} ${id} ${attempt} ${Date.now()}\n`);

worker.task("ledger", async (job) => {
    write("begin", job);
    const { work_ms, outcome } = job.payload;
    await pause(work_ms, undefined, { signal: job.signal }).catch(() => {});
    write("end", job);
    if (outcome === "fail") return Outcome.fail("as it was asked to");
    if (outcome === "retry" && job.attempt === 1) return Outcome.retry("once, as it was asked to", { delay: 1000 });
    return { size: JSON.stringify(job.payload).length };
});
await worker.run();
process.exit(0);
