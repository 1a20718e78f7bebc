import type { Client } from "./client.js";
import type { List } from "./pages.js";
import type { Cancelled } from "./registrar.js";
import { type NewStart, startFields, timeText } from "./tasks.js";
import type { CallOptions, Instant, Request, Schemas, Task } from "./types.js";

type Schedule = Schemas["ScheduleResponse"];
type Job = Schemas["JobResponse"];
type Moved = Schemas["RescheduleResponse"];
type Callback = Schemas["CallbackResponse"];

/** The task that a key names. */
export class KeyedTask {
    readonly #client: Client;
    readonly #body: { callback: string; key: string };

    constructor(client: Client, callback: string, key: string) {
        this.#client = client;
        this.#body = { callback, key };
    }

    /** Reads the live task of the key, or the last one; undefined when there is none. */
    async get(options?: CallOptions): Promise<Task | undefined> {
        const { tasks } = await this.#client.call("listTasks", { query: this.#body }, options);
        return tasks[0];
    }

    cancel(options?: CallOptions): Promise<Cancelled> {
        return this.#client.call("cancelTaskByKey", { body: this.#body }, options);
    }

    reschedule(start: NewStart, options?: CallOptions): Promise<Moved> {
        return this.#client.call("rescheduleTaskByKey", { body: { ...this.#body, ...startFields(start) } }, options);
    }

    run(options?: CallOptions): Promise<Moved> {
        return this.#client.call("runTaskByKey", { body: this.#body }, options);
    }
}

class Resource {
    protected readonly client: Client;

    constructor(client: Client) {
        this.client = client;
    }
}

/** Times at which tasks start again and again. */
export class Schedules extends Resource {
    /** Sets a schedule as a whole, in place of the one before. */
    set(name: string, body: Schemas["ScheduleRequest"], options?: CallOptions): Promise<Schedule> {
        return this.client.call("setSchedule", { path: { name }, body }, options);
    }

    get(name: string, options?: CallOptions): Promise<Schedule> {
        return this.client.call("getSchedule", { path: { name } }, options);
    }

    delete(name: string, options?: CallOptions): Promise<Schemas["DeleteScheduleAnswer"]> {
        return this.client.call("deleteSchedule", { path: { name } }, options);
    }

    list(options?: CallOptions): List<Schemas["NamedSchedule"] | Schedule> {
        return this.client.pages(async (page_token) => {
            const page = await this.client.call("listSchedules", { query: { page_token } }, options);
            return { items: page.schedules, next: page.next_page_token };
        });
    }

    /** Lists the runs of a schedule, the newest first. */
    runs(name: string, options?: CallOptions): List<Schemas["RunResponse"]> {
        return this.client.pages(async (page_token) => {
            const page = await this.client.call("listScheduleRuns", { path: { name }, query: { page_token } }, options);
            return { items: page.runs, next: page.next_page_token };
        });
    }

    /** Starts a run now, beside those of the schedule. */
    trigger(name: string, options?: CallOptions): Promise<Task> {
        return this.client.call("triggerSchedule", { path: { name } }, options);
    }

    pause(name: string, reason?: string, options?: CallOptions): Promise<Schedule> {
        return this.client.call(
            "pauseSchedule",
            { path: { name }, body: reason === undefined ? {} : { reason } },
            options,
        );
    }

    resume(name: string, options?: CallOptions): Promise<Schedule> {
        return this.client.call("resumeSchedule", { path: { name } }, options);
    }

    /** Shows the next times of a schedule that is set. */
    preview(
        name: string,
        query: { count?: number; from?: string } = {},
        options?: CallOptions,
    ): Promise<Schemas["PreviewResponse"]> {
        return this.client.call("previewSchedule", { path: { name }, query }, options);
    }

    /** Shows the next times of a schedule without setting it. */
    check(
        body: Schemas["ScheduleRequest"],
        query: { count?: number; from?: string } = {},
        options?: CallOptions,
    ): Promise<Schemas["PreviewResponse"]> {
        return this.client.call("checkSchedule", { query, body }, options);
    }

    /** Makes the runs of a span of time that has passed, as a job. */
    backfill(name: string, body: Schemas["BackfillRequest"], options?: CallOptions): Promise<Job> {
        return this.client.call("backfillSchedule", { path: { name }, body }, options);
    }
}

/** Defaults, limits and gates of callbacks. */
export class Callbacks extends Resource {
    /** Sets the configuration of a callback as a whole, in place of the one before. */
    set(name: string, body: Schemas["CallbackRequest"], options?: CallOptions): Promise<Callback> {
        return this.client.call("setCallback", { path: { name }, body }, options);
    }

    get(name: string, options?: CallOptions): Promise<Callback> {
        return this.client.call("getCallback", { path: { name } }, options);
    }

    delete(name: string, options?: CallOptions): Promise<void> {
        return this.client.call("deleteCallback", { path: { name } }, options);
    }

    list(options?: CallOptions): List<Schemas["NamedCallback"] | Callback> {
        return this.client.pages(async (page_token) => {
            const page = await this.client.call("listCallbacks", { query: { page_token } }, options);
            return { items: page.callbacks, next: page.next_page_token };
        });
    }

    /** Holds the tasks of a callback that fall due. */
    pause(
        name: string,
        gate: { reason?: string; until?: Instant; collection?: string } = {},
        options?: CallOptions,
    ): Promise<Callback> {
        const { until, ...rest } = gate;
        return this.gate(name, { ...rest, gate: "paused", ...(until && { until: timeText(until) }) }, options);
    }

    /** Opens the gate of a callback: held tasks go out, oldest first. */
    resume(name: string, gate: { collection?: string } = {}, options?: CallOptions): Promise<Callback> {
        return this.gate(name, { ...gate, gate: "open" }, options);
    }

    gate(name: string, body: Schemas["GateRequest"], options?: CallOptions): Promise<Callback> {
        return this.client.call("setGate", { path: { name }, body }, options);
    }
}

/** Tasks that have used up their attempts. */
export class DeadLetters extends Resource {
    list(filter: { callback?: string; error?: string } = {}, options?: CallOptions): List<Schemas["DeadLetter"]> {
        return this.client.pages(async (page_token) => {
            const page = await this.client.call("listDeadLetters", { query: { ...filter, page_token } }, options);
            return { items: page.dead_letters, next: page.next_page_token };
        });
    }

    /** Counts dead tasks by callback and kind of error. */
    groups(filter: { callback?: string } = {}, options?: CallOptions): Promise<Schemas["DeadLetterGroup"][]> {
        return this.client.call("groupDeadLetters", { query: filter }, options);
    }

    /** Runs dead tasks again: some by their ids at once, or those of a callback as a job. */
    redrive(body: Schemas["RedriveRequest"], options?: CallOptions): Promise<Schemas["RedriveResponse"] | Job> {
        return this.client.call("redriveDeadLetters", { body }, options);
    }

    delete(id: string, options?: CallOptions): Promise<void> {
        return this.client.call("deleteDeadLetter", { path: { id } }, options);
    }
}

/** Changes of many tasks, which the service carries out by and by. */
export class Jobs extends Resource {
    create(body: Schemas["JobRequest"], options?: CallOptions): Promise<Job> {
        return this.client.call("createJob", { body }, options);
    }

    get(id: string, options?: CallOptions): Promise<Job> {
        return this.client.call("getJob", { path: { id } }, options);
    }

    list(options?: CallOptions): List<Job> {
        return this.client.pages(async (page_token) => {
            const page = await this.client.call("listJobs", { query: { page_token } }, options);
            return { items: page.jobs, next: page.next_page_token };
        });
    }

    pause(id: string, options?: CallOptions): Promise<Job> {
        return this.client.call("pauseJob", { path: { id } }, options);
    }

    resume(id: string, options?: CallOptions): Promise<Job> {
        return this.client.call("resumeJob", { path: { id } }, options);
    }

    cancel(id: string, options?: CallOptions): Promise<Job> {
        return this.client.call("cancelJob", { path: { id } }, options);
    }
}

/** Keys by which programs and people are let in. */
export class ApiKeys extends Resource {
    /** Makes a key; its text is in this answer alone. */
    create(body: Request<"createApiKey">["body"], options?: CallOptions): Promise<Schemas["ApiKeyResponse"]> {
        return this.client.call("createApiKey", { body }, options);
    }

    list(options?: CallOptions): List<Schemas["NamedApiKey"] | Schemas["ApiKeyResponse"]> {
        return this.client.pages(async (page_token) => {
            const page = await this.client.call("listApiKeys", { query: { page_token } }, options);
            return { items: page.api_keys, next: page.next_page_token };
        });
    }

    revoke(id: string, options?: CallOptions): Promise<void> {
        return this.client.call("revokeApiKey", { path: { id } }, options);
    }
}
