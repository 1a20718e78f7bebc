// A worker that tests signal, freeze and kill: it writes what happens, a line each.
import { type TickwheelError, Worker } from "tickwheel";

const [server = "", callback = "", took = "20", drainTimeout = "20s", concurrency = "16"] = process.argv.slice(2);

const say = (...words: unknown[]): void => void process.stdout.write(`${words.join(" ")}\n`);
const worker = new Worker(server, { concurrency: Number(concurrency), drainTimeout });
worker.task(callback, async ({ id, attempt, signal }) => {
    say("began", id, attempt);
    signal.addEventListener("abort", () => say("aborted", id, attempt, (signal.reason as TickwheelError).code));
    await new Promise((resolve) => setTimeout(resolve, Number(took)));
    return { by: process.pid };
});
say("ready");
await worker.run();
say("stopped");
