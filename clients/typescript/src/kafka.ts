import { InvalidArgumentError } from "./errors.js";

/** How a worker reaches Kafka. */
export interface KafkaOptions {
    /** Addresses of brokers. */
    brokers: readonly string[];
    /** Further options of the consumer of `@platformatic/kafka`, such as `sasl` and `tls`. */
    client?: Readonly<Record<string, unknown>> | undefined;
    /**
     * The key of a service that signs its messages; that of `TICKWHEEL_SIGNING_KEY` by default. Messages without a right
     * signature are passed over then.
     */
    signingKey?: string | undefined;
}

/** What the worker sets itself. */
const OWN = [
    "groupId",
    "clientId",
    "bootstrapBrokers",
    "autocommit",
    "protocols",
    "partitionAssigner",
    "deserializers",
];

/**
 * The topics of a service that uses Kafka, in place of polls. Needs the package `@platformatic/kafka`. Workers of all languages
 * share the group of a callback.
 *
 * ```ts
 * const worker = new Worker("http://127.0.0.1:7420", { source: new KafkaSource({ brokers: ["broker:9092"] }) });
 * ```
 *
 * A message is held until it is due and claimed once a handler is free. Its offset is committed behind the report of its attempt,
 * so what is under way is the lag of the group. When a partition goes to another worker, what was not claimed of it goes with it,
 * and handlers that run go on.
 */
export class KafkaSource {
    readonly options: KafkaOptions;

    constructor(options: KafkaOptions) {
        if (options.brokers.length === 0) throw new InvalidArgumentError("brokers: give at least one address");
        const taken = OWN.filter((name) => name in (options.client ?? {}));
        if (taken.length > 0)
            throw new InvalidArgumentError(`the worker sets ${taken.join(", ")} itself: leave it out of client`);
        this.options = { ...options, signingKey: options.signingKey ?? process.env["TICKWHEEL_SIGNING_KEY"] };
    }
}
