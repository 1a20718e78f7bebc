// Wrong use that the compiler refuses: a line behind `@ts-expect-error` that compiles is an error of `tsc`.
import { Client, Outcome, type Task, Worker } from "tickwheel";
import { verify } from "tickwheel/webhooks";
import { z } from "zod";

const client = new Client();
const worker = new Worker();
const greeting = z.object({ name: z.string() });

export async function producers(): Promise<void> {
    const task: Task = await client.register({ callback: "greet", delay: 2000, start_time: new Date() });
    // @ts-expect-error: the field does not exist
    await client.register({ callback: "greet", dely: "2s" });
    // @ts-expect-error: a priority is one of three
    await client.register({ callback: "greet", priority: "urgent" });
    // @ts-expect-error: a number of attempts is a number
    await client.register({ callback: "greet", max_attempts: "3" });
    // @ts-expect-error: a child is a task
    await client.register({ callback: "greet", children: ["greet"] });
    // @ts-expect-error: an id is a text
    await client.get(17);
    // @ts-expect-error: a new start is a time or a delay
    await client.reschedule(task.id, { at: new Date() });
    // @ts-expect-error: an unknown operation
    await client.call("getTasks", {});
    // @ts-expect-error: the operation needs the id of its path
    await client.call("getTask", {});
    // @ts-expect-error: a state is one of those of the API
    client.list({ state: "done" });
    // @ts-expect-error: a list is read with `for await`
    for (const one of client.list()) console.log(one);
    const size: number = (await client.result(task.id, z.object({ size: z.number() }))).size;
    // @ts-expect-error: the result is as its schema says
    const name: string = (await client.result(task.id, z.object({ size: z.number() }))).size;
    // @ts-expect-error: without a schema nothing is known of a result
    const length: number = (await client.result(task.id)).length;
    // @ts-expect-error: a schedule is set with what it starts
    await client.schedules.set("nightly", { cron: 17 });
    console.log(size, name, length);
}

export function workers(): void {
    worker.task("greet", greeting, ({ payload }) => `hello ${payload.name}`);
    worker.task(
        "greet",
        { payload: greeting, result: z.number(), concurrency: 4 },
        ({ payload }) => payload.name.length,
    );
    worker.task("greet", { result: z.number() }, ({ attempt }) => (attempt > 3 ? Outcome.fail("no") : attempt));
    // @ts-expect-error: the payload has no such field
    worker.task("greet", greeting, ({ payload }) => payload.nam);
    // @ts-expect-error: the result is a number
    worker.task("greet", { payload: greeting, result: z.number() }, ({ payload }) => payload.name);
    // @ts-expect-error: without a schema nothing is known of the payload
    worker.task("greet", ({ payload }) => payload.name);
    // @ts-expect-error: a schema needs a handler
    worker.task("greet", greeting);
    // @ts-expect-error: a concurrency is a number
    worker.task("greet", { concurrency: "4" }, () => {});
    // @ts-expect-error: a snooze lasts for some time
    Outcome.snooze();
    // @ts-expect-error: an outcome is made by its functions
    new Outcome({ outcome: "succeeded" });
}

export async function receivers(request: Request): Promise<void> {
    const message = await verify<{ user: number }>(await request.text(), request.headers, "whsec_x");
    // @ts-expect-error: the payload has no such field
    console.log(message.payload.name);
    // @ts-expect-error: the body is what came, not what was read from it
    await verify({ user: 7 }, request.headers, "whsec_x");
}
