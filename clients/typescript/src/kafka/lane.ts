import { Backoff, sleep } from "../backoff.js";
import { UnexpectedAnswerError, ServiceError } from "../errors.js";
import type { KafkaOptions } from "../kafka.js";
import { results } from "../registrar.js";
import { readJson } from "../transport.js";
import type { ClaimedTask, Schemas } from "../types.js";
import type { Handling } from "../worker/attempt.js";
import { keyOf as attemptKey } from "../worker/beats.js";
import { steady } from "../worker/clock.js";
import type { Tools } from "../worker/lane.js";
import { Running } from "../worker/running.js";
import { type Assigned, type Consumer, type KafkaRecord, type Stream, consume, consumerOf } from "./client.js";
import { Line, type Waiting } from "./line.js";
import { type Content, Unreadable, checkSignature, readMessage } from "./message.js";
import { Offsets, type Place, keyOf } from "./offsets.js";

/** How long a call of the worker may take with its repetitions. */
const CALL = 10_000;
/** How often marks are committed. */
const COMMIT = 500;
/** A message that may be claimed only later is held so long; the service publishes it again by then. */
const HOLD = 5_000;
const HOLD_LEAST = 20;
/** How often a claim is repeated that the service cannot take. */
const CLAIMS = 5;
/** How long the last commit and the end of the membership may take. */
const CLOSE = 5_000;

/** Consumes the messages of one callback, claims them, and runs their tasks. */
export class KafkaLane {
    readonly #handling: Handling;
    readonly #tools: Tools;
    readonly #kafka: KafkaOptions;
    readonly #running: Running;
    readonly #line = new Line();
    readonly #offsets = new Offsets();
    #owned = new Set<string>();
    #passed = 0;
    #consumer: Consumer | undefined;
    #stream: Stream | undefined;
    #isPaused = false;
    #commits: NodeJS.Timeout | undefined;
    #broken: (error: Error) => void = () => {};

    constructor(handling: Handling, tools: Tools, kafka: KafkaOptions) {
        this.#handling = handling;
        this.#tools = tools;
        this.#kafka = kafka;
        this.#running = new Running(handling, tools, () => this.#line.wake());
    }

    /** Claims until the worker stops. The membership of the group goes on until `close`, for the commits of what still runs. */
    async poll(): Promise<void> {
        const { stopping } = this.#tools;
        stopping.addEventListener("abort", () => this.#line.wake(), { once: true });
        const group = await this.#group();
        if (group === undefined) return;
        void this.#consume(group);
        this.#commits = setInterval(() => void this.#commit(), COMMIT);
        while (!stopping.aborted) {
            const batch = this.#line.take(this.#running.free);
            if (batch.length > 0) await this.#claim(batch);
            else await this.#line.change();
            this.#throttle();
        }
    }

    /** Waits for the attempts that run. */
    ended(): Promise<void> {
        return this.#running.ended();
    }

    /** Commits what is done, and leaves the group. */
    async close(): Promise<void> {
        clearInterval(this.#commits);
        const consumer = this.#consumer;
        if (!consumer) return;
        await this.#commit();
        this.#consumer = undefined;
        this.#broken(new Error("the worker stops"));
        await Promise.race([this.#leave(consumer), sleep(CLOSE)]);
    }

    /** Makes sure that the topics exist. Returns the group, or undefined when the worker stops before. */
    async #group(): Promise<string | undefined> {
        const { stopping, logger } = this.#tools;
        const { callback } = this.#handling;
        const backoff = new Backoff();
        while (!stopping.aborted) {
            try {
                const answer = await this.#call<Schemas["SubscribeAnswer"]>("subscribe", { callbacks: [callback] });
                const group = answer.groups[callback];
                if (group !== undefined) return group;
                throw new UnexpectedAnswerError(`there is no group of ${callback} in the answer`);
            } catch (error) {
                const wait = backoff.next((error as { retryAfter?: number }).retryAfter);
                logger.warn(`tickwheel: cannot subscribe to ${callback}, trying again: ${error}`);
                await sleep(wait, stopping).catch(() => {});
            }
        }
        return undefined;
    }

    /** Consumes until the lane is closed, with a new membership when one has failed. */
    async #consume(group: string): Promise<void> {
        const { name, logger } = this.#tools;
        const backoff = new Backoff();
        for (;;) {
            let failed: unknown;
            try {
                const consumer = (this.#consumer = await consumerOf(this.#kafka, group, name));
                const broken = new Promise<Error>((resolve) => (this.#broken = resolve));
                consumer.on("consumer:group:join", ({ assignments }) => this.#joined(assignments ?? []));
                consumer.on("error", (error) => logger.warn(`tickwheel: Kafka for ${group}: ${error}`));
                const stream = (this.#stream = await consume(consumer, group));
                this.#isPaused = false;
                stream.on("error", this.#broken);
                stream.on("data", (record) => this.#received(record));
                backoff.succeeded();
                failed = await broken;
                if (this.#consumer !== consumer) return;
                await this.#leave(consumer);
            } catch (error) {
                failed = error;
            }
            this.#joined([]);
            logger.error(`tickwheel: cannot consume ${group}, trying again: ${failed}`);
            await sleep(backoff.next());
            if (this.#tools.stopping.aborted) return;
        }
    }

    async #leave(consumer: Consumer): Promise<void> {
        await this.#stream?.close().catch(() => {});
        await consumer.close(true).catch((error: unknown) => this.#tools.logger.warn(`tickwheel: Kafka: ${error}`));
    }

    /** Takes over partitions. What waits of others is dropped: their workers receive it. Attempts that run go on, by their leases. */
    #joined(assignments: readonly Assigned[]): void {
        const places = assignments.flatMap(({ topic, partitions }) =>
            partitions.map((partition) => keyOf({ topic, partition })),
        );
        this.#owned = new Set(places);
        const owned = (place: Place) => this.#owned.has(keyOf(place));
        this.#line.keep(owned);
        this.#offsets.keep(owned);
    }

    #received({ topic, partition, offset, key, value, headers: raw }: KafkaRecord): void {
        const place = { topic, partition };
        // A fetch may come in behind its partition, and again behind a change of the group.
        if (!this.#owned.has(keyOf(place)) || !this.#offsets.received(place, offset)) return;
        const headers = new Map(Array.from(raw, ([name, text]) => [name.toString(), text]));
        try {
            const { signingKey } = this.#kafka;
            if (signingKey) checkSignature(signingKey, topic, key, value, headers);
            const message = readMessage(headers, value);
            if (message.callback !== this.#handling.callback)
                throw new Unreadable(`it is of the callback ${JSON.stringify(message.callback)}`);
            this.#line.add({ place, offset, value, message, notBefore: message.start, failures: 0 });
            this.#throttle();
        } catch (error) {
            if (!(error instanceof Unreadable)) throw error;
            this.#passed += 1;
            const where = `${keyOf(place)} at ${offset}`;
            this.#tools.logger.error(
                `tickwheel: passed a message (${this.#passed} so far), ${where}: ${error.message}`,
            );
            this.#offsets.done(place, offset);
        }
    }

    /** Messages that no handler is free for stay with Kafka. */
    #throttle(): void {
        const isFull = this.#line.size >= this.#handling.concurrency;
        if (isFull === this.#isPaused) return;
        this.#isPaused = isFull;
        if (isFull) this.#stream?.pause();
        else this.#stream?.resume();
    }

    async #commit(): Promise<void> {
        const marks = this.#offsets.toCommit();
        if (marks.length === 0 || !this.#consumer) return;
        try {
            await this.#consumer.commit({ offsets: marks.map((mark) => ({ ...mark, leaderEpoch: -1 })) });
            this.#offsets.committed(marks);
        } catch (error) {
            // Sent once more. Where a partition has gone, its messages come again, and their claims say to forget them.
            this.#tools.logger.warn(`tickwheel: not committed for ${this.#handling.callback}: ${error}`);
        }
    }

    async #claim(batch: readonly Waiting[]): Promise<void> {
        const free = this.#running.free;
        const sent = steady();
        const messages = batch.map(({ value, message }) => ({
            id: message.id,
            generation: message.generation,
            expected_attempt: message.expectedAttempt,
            // Spares the service a read.
            message: value.toString("base64"),
        }));
        const view = batch.some(({ message }) => message.content === undefined) ? "FULL" : "BASIC";
        let answers: Schemas["ClaimResult"][];
        try {
            const reply = await this.#send("claim", { messages, view });
            answers = results<Schemas["ClaimResult"]>(reply, batch.length);
        } catch (error) {
            for (const one of batch) this.#failed(one, error);
            return;
        }
        const claimed = new Map<string, Waiting>();
        const tasks: ClaimedTask[] = [];
        answers.forEach((answer, place) => {
            const one = batch[place];
            if (!one) return;
            if (answer.status !== "claimed" || !answer.task) return this.#answered(one, answer);
            claimed.set(attemptKey(answer.task), one);
            tasks.push(
                view === "BASIC" && one.message.content ? filled(answer.task, one.message.content) : answer.task,
            );
        });
        this.#running.begin(tasks, sent, free, (task) => {
            const one = claimed.get(attemptKey(task));
            if (one) this.#forget(one);
        });
    }

    #answered(one: Waiting, { status, not_before, error }: Schemas["ClaimResult"]): void {
        if ((status === "early" || status === "limited") && not_before) {
            const [until, now] = [Date.parse(not_before), Date.now()];
            // The service publishes it again at its time.
            if (status === "early" && until > now + HOLD) return this.#forget(one);
            one.notBefore = Math.max(Math.min(until, now + HOLD), now + HOLD_LEAST);
            return this.#line.add(one);
        }
        if (status === "error" && error?.retryable) return this.#failed(one, new Error(error.detail));
        // Outdated, held, gated, behind another one, and what later versions say: the service comes back to the task.
        this.#forget(one);
    }

    #failed(one: Waiting, error: unknown): void {
        const { logger, stopping } = this.#tools;
        if (!stopping.aborted) logger.warn(`tickwheel: task ${one.message.id}: no claim: ${error}`);
        const isFinal = error instanceof ServiceError && !error.retryable;
        // The service comes back to the task.
        if (isFinal || one.failures >= CLAIMS) return this.#forget(one);
        const backoff = new Backoff();
        let wait = 0;
        for (let failures = 0; failures <= one.failures; failures += 1)
            wait = backoff.next((error as { retryAfter?: number }).retryAfter);
        one.failures += 1;
        one.notBefore = Date.now() + wait;
        this.#line.add(one);
    }

    #forget({ place, offset }: Waiting): void {
        this.#offsets.done(place, offset);
    }

    async #call<T>(verb: string, asked: object): Promise<T> {
        return readJson<T>(await this.#send(verb, asked));
    }

    #send(verb: string, asked: object) {
        const { name, transport, stopping } = this.#tools;
        const body = JSON.stringify({ worker: name, ...asked });
        // A claim that is under way when the worker stops is answered still: what it has claimed is given back.
        const signal = verb === "claim" ? undefined : stopping;
        const path = `/v1/worker/${verb}`;
        return transport.send({ method: "POST", path, body, repeatable: true, timeout: CALL, signal });
    }
}

/** Gives a claimed task the content of its message, as the service shows contents. */
export function filled(task: ClaimedTask, { payload, contentType, traceParent }: Content): ClaimedTask {
    const whole = { ...task, content_type: contentType || null, traceparent: traceParent ?? null };
    const [essence = ""] = contentType.toLowerCase().split(";");
    if (essence.trim() === "application/json" || essence.trim().endsWith("+json")) {
        try {
            return { ...whole, payload: JSON.parse(payload.toString()) as unknown };
        } catch {
            // It is shown as bytes.
        }
    }
    return { ...whole, payload_base64: payload.toString("base64") };
}
