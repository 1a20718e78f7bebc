"""Workers that consume Kafka: `Worker(source=KafkaSource("broker:9092"))`.

Needs `pip install tickwheel[kafka]`. The contract is `docs/kafka-message.md` of the service.
"""

from .worker.kafka.source import KafkaSource

__all__ = ["KafkaSource"]
