import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { InvalidArgumentError } from "tickwheel";
import { KafkaSource } from "tickwheel/kafka";

/** A file of the package that programs do not import. */
const inner = (path: string): Promise<unknown> => import(new URL(`../../dist/${path}`, import.meta.url).href);
const { readMessage, checkSignature, Unreadable } = (await inner(
    "kafka/message.js",
)) as typeof import("../dist/kafka/message.js");
const { Offsets } = (await inner("kafka/offsets.js")) as typeof import("../dist/kafka/offsets.js");
const { Line } = (await inner("kafka/line.js")) as typeof import("../dist/kafka/line.js");
const { rangeAssigner } = (await inner("kafka/client.js")) as typeof import("../dist/kafka/client.js");
const { filled } = (await inner("kafka/lane.js")) as typeof import("../dist/kafka/lane.js");

interface Golden {
    name: string;
    headers: Record<string, string>;
    value: string;
    decoded: {
        id: string;
        generation: number;
        expected_attempt: number;
        start_time_ms: number;
        spec: {
            callback: string;
            max_attempts: number;
            heartbeat_timeout_ms: number;
            content: { payload: string; content_type: string } | null;
        };
    } | null;
}

const file = new URL("../../../../tests/golden/kafka_message.json", import.meta.url);
const { messages } = JSON.parse(readFileSync(file, "utf8")) as { messages: Golden[] };
const headersOf = (headers: Record<string, string>) =>
    new Map(Object.entries(headers).map(([name, value]) => [name, Buffer.from(value)]));
const read = ({ headers, value }: Golden) => readMessage(headersOf(headers), Buffer.from(value, "hex"));

test("the golden messages are read, and those of other formats are passed", () => {
    for (const golden of messages) {
        const { decoded, name } = golden;
        if (!decoded) {
            assert.throws(() => read(golden), Unreadable, name);
            continue;
        }
        const message = read(golden);
        const { spec } = decoded;
        assert.deepEqual(
            [message.id, message.generation, message.expectedAttempt, message.start, message.callback],
            [decoded.id, decoded.generation, decoded.expected_attempt, decoded.start_time_ms, spec.callback],
            name,
        );
        assert.deepEqual(
            [message.maxAttempts, message.heartbeatTimeout],
            [spec.max_attempts, spec.heartbeat_timeout_ms],
            name,
        );
        if (message.content) {
            assert.equal(message.content.payload.toString("base64"), spec.content?.payload, name);
            assert.equal(message.content.contentType, spec.content?.content_type, name);
        }
        assert.throws(() => read({ ...golden, value: golden.value.slice(0, -2) }), Unreadable, `${name}, cut`);
    }
    assert.deepEqual(new Set(messages.map(({ decoded }) => decoded === null)), new Set([true, false]));
});

test("a signature belongs to the key of the service and to the whole record", () => {
    const key = "an old key of thirty bytes....";
    const headers = headersOf({ "tickwheel-signature": "v1,HynjlbUhdNO+j1buhBZUe6sSqrxJaz4G3dAFngOrBoQ=" });
    const check = (given: string, value: string, signed = headers) =>
        checkSignature(given, "tickwheel.mail.normal", Buffer.from("k1"), Buffer.from(value), signed);
    check(key, "hello");
    assert.throws(() => check(key.slice(1), "hello"), Unreadable);
    assert.throws(() => check(key, "hallo"), Unreadable);
    assert.throws(() => check(key, "hello", new Map()), Unreadable);
});

test("a mark passes no message that is not done, and none is taken twice", () => {
    const offsets = new Offsets();
    const place = { topic: "t", partition: 1 };
    for (const offset of [5n, 6n, 7n]) assert.ok(offsets.received(place, offset));
    assert.equal(offsets.received(place, 6n), false);
    offsets.done(place, 6n);
    assert.deepEqual(offsets.toCommit(), []);
    offsets.done(place, 5n);
    assert.deepEqual(offsets.toCommit(), [{ ...place, offset: 7n }]);
    offsets.committed([{ ...place, offset: 7n }]);
    assert.deepEqual(offsets.toCommit(), []);
    offsets.keep(() => false);
    assert.ok(offsets.received(place, 6n));
});

test("what is due is claimed by its priority, and no more than handlers are free", async () => {
    const line = new Line();
    const golden = messages.find(({ decoded }) => decoded) as Golden;
    const add = (topic: string, start: number) =>
        line.add({
            place: { topic, partition: 0 },
            offset: 0n,
            value: Buffer.alloc(1),
            message: { ...read(golden), start },
            notBefore: start,
            failures: 0,
        });
    const now = Date.now();
    for (const [topic, start] of [
        ["a.low", now - 9000],
        ["a.high", now - 1000],
        ["a.normal", now - 5000],
        ["a.high", now + 60_000],
    ] as const)
        add(topic, start);
    const topics = (max: number) => line.take(max).map(({ place: { topic } }) => topic);
    assert.deepEqual(topics(2), ["a.high", "a.normal"]);
    assert.deepEqual(topics(2), ["a.low"]);
    assert.deepEqual([topics(2), line.size], [[], 1]);
    line.keep(() => false);
    const changed = line.change();
    add("a.normal", now);
    await changed;
    assert.deepEqual(topics(2), ["a.normal"]);
});

test("each partition belongs to one member, as the assignor of other clients has it", () => {
    const members = new Map([
        ["b", {}],
        ["a", {}],
        ["c", {}],
    ]);
    const known = new Map([["t", { partitionsCount: 8 }]]);
    const given = rangeAssigner("a", members, new Set(["t"]), { topics: known });
    assert.deepEqual(
        given.map(({ memberId, assignments }) => [memberId, assignments.get("t")?.partitions]),
        [
            ["a", [0, 1, 2]],
            ["b", [3, 4, 5]],
            ["c", [6, 7]],
        ],
    );
});

test("a content is filled in as the service shows it", () => {
    const task = { id: "x", attempt: 1 } as Parameters<typeof filled>[0];
    const of = (payload: string, contentType: string) => {
        const content = { payload: Buffer.from(payload), contentType, traceParent: undefined };
        const { payload: json, payload_base64: bytes } = filled(task, content);
        return [json, bytes];
    };
    assert.deepEqual(of('{"a": 1}', "application/json"), [{ a: 1 }, undefined]);
    assert.deepEqual(of("{", "application/problem+json; charset=utf-8"), [undefined, "ew=="]);
    assert.deepEqual(of("x", "text/plain"), [undefined, "eA=="]);
});

test("a source says what is wrong with it", () => {
    assert.throws(() => new KafkaSource({ brokers: [] }), InvalidArgumentError);
    assert.throws(() => new KafkaSource({ brokers: ["a:1"], client: { groupId: "mine" } }), /groupId/);
});
