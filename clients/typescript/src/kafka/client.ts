import { TickwheelError } from "../errors.js";
import type { KafkaOptions } from "../kafka.js";
import type { Place } from "./offsets.js";

/** A record as the client of Kafka has it. */
export interface KafkaRecord extends Place {
    key: Buffer | null;
    value: Buffer;
    headers: ReadonlyMap<Buffer, Buffer>;
    offset: bigint;
}

/** Partitions of a topic. */
export interface Assigned {
    topic: string;
    partitions: number[];
}

interface Stream {
    on(event: "data", take: (record: KafkaRecord) => void): this;
    on(event: "error", failed: (error: Error) => void): this;
    pause(): this;
    resume(): this;
    close(): Promise<void>;
}

/** The part of a consumer of `@platformatic/kafka` that a worker needs. */
interface Consumer {
    on(event: "consumer:group:join", joined: (group: { assignments?: Assigned[] | null }) => void): this;
    on(event: "error", failed: (error: Error) => void): this;
    consume(options: object): Promise<Stream>;
    commit(options: { offsets: (Place & { offset: bigint; leaderEpoch: number })[] }): Promise<void>;
    close(force?: boolean): Promise<void>;
}

interface Members {
    keys(): Iterable<string>;
}

interface Metadata {
    topics: ReadonlyMap<string, { partitionsCount: number }>;
}

/** The package that speaks with Kafka; it is a peer that programs install. A variable, so that no bundler looks for it. */
const PACKAGE = "@platformatic/kafka";
/** How long a fetch waits for records. */
const FETCH_WAIT = 500;
const SESSION = 10_000;
const HEARTBEAT = 2_000;

/**
 * Gives each member its part of each topic: neighbouring partitions, as the assignor `range` of other clients does. A group has one
 * assignor for all of its members, in whatever language they are.
 */
export function rangeAssigner(_: string, members: Members, topics: Iterable<string>, { topics: known }: Metadata) {
    const ids = [...members.keys()].toSorted();
    const given = ids.map((memberId) => ({ memberId, assignments: new Map<string, Assigned>() }));
    for (const topic of topics) {
        const count = known.get(topic)?.partitionsCount ?? 0;
        given.forEach(({ assignments }, place) => {
            const [from, to] = [place, place + 1].map((part) => Math.ceil((part * count) / ids.length));
            const partitions = Array.from({ length: (to ?? 0) - (from ?? 0) }, (_, step) => (from ?? 0) + step);
            if (partitions.length > 0) assignments.set(topic, { topic, partitions });
        });
    }
    return given;
}

/** Makes a consumer of a group. */
export async function consumerOf(options: KafkaOptions, group: string, name: string): Promise<Consumer> {
    const { Consumer } = await packageOf();
    return new Consumer({
        sessionTimeout: SESSION,
        heartbeatInterval: HEARTBEAT,
        ...options.client,
        clientId: name.replaceAll(/[^\w.-]/g, "_"),
        groupId: group,
        bootstrapBrokers: [...options.brokers],
        autocommit: false,
        protocols: [{ name: "range", version: 1 }],
        partitionAssigner: rangeAssigner,
    });
}

/** Begins to consume the topics of a group. */
export function consume(consumer: Consumer, group: string): Promise<Stream> {
    const topics = ["high", "normal", "low"].map((priority) => `${group}.${priority}`);
    return consumer.consume({
        topics,
        autocommit: false,
        mode: "committed",
        fallbackMode: "earliest",
        maxWaitTime: FETCH_WAIT,
    });
}

export type { Consumer, Stream };

async function packageOf(): Promise<{ Consumer: new (options: object) => Consumer }> {
    try {
        return (await import(PACKAGE)) as { Consumer: new (options: object) => Consumer };
    } catch (error) {
        const text = `KafkaSource needs the package ${PACKAGE}: npm install ${PACKAGE} (${error})`;
        throw new TickwheelError("package_missing", text, false);
    }
}
