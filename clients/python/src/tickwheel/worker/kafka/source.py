"""Where a worker of Kafka gets its tasks from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import InvalidArgument


class KafkaSource:
    """The topics of a service that uses Kafka. Workers of all languages share the group of a callback.

        worker = Worker("http://localhost:7420", source=KafkaSource("broker:9092"))

    A message is held until it is due and claimed once a handler is free. Its offset is committed behind the report of its
    attempt, so what is under way is the lag of the group. When a partition goes to another worker, what was not claimed of it
    goes with it, and handlers that run go on.

    Args:
        brokers: addresses with commas between them.
        config: further settings of librdkafka, such as those of TLS and SASL.
        signing_key: the key of a service that signs its messages; `$TICKWHEEL_SIGNING_KEY` by default. Messages without a
            right signature are passed over then.

    Raises:
        InvalidArgument: confluent-kafka is not installed, or `config` sets what the worker sets itself.
    """

    OWN = ("group.id", "enable.auto.commit", "auto.offset.reset", "on_commit")

    def __init__(self, brokers: str, *, config: Mapping[str, Any] | None = None, signing_key: str | None = None) -> None:
        try:
            import confluent_kafka  # noqa: F401
        except ImportError:
            raise InvalidArgument("KafkaSource needs confluent-kafka: pip install 'tickwheel[kafka]'") from None
        self.config = {"bootstrap.servers": brokers, **(config or {})}
        taken = [name for name in self.OWN if name in self.config]
        if taken:
            raise InvalidArgument(f"the worker sets {', '.join(taken)} itself: leave it out of `config`")
        key = signing_key if signing_key is not None else os.environ.get("TICKWHEEL_SIGNING_KEY", "")
        self.signing_key = key.encode()

    def consumer(self, group: str, on_commit: Any) -> Any:
        """A consumer of a group."""
        from confluent_kafka import Consumer

        own = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", "on_commit": on_commit}
        # Every client has the assignor `range`, so workers of several languages share a group.
        usual = {"partition.assignment.strategy": "range", "max.poll.interval.ms": 60_000}
        return Consumer({**usual, **self.config, **own})
