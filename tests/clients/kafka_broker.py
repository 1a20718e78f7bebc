"""Publishes what is no task, and says how far a group is: the part of the broker in a test against real servers.

    kafka_broker.py disturb TOPIC     to each partition a message of a later format, and one that is none
    kafka_broker.py lag GROUP         how many messages of each partition are not committed
"""

import os
import pathlib
import sys

from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
from kafka_message import CONTENT_TYPE

BROKERS = {"bootstrap.servers": os.environ["TICKWHEEL_KAFKA"]}


def disturb(topic):
    producer = Producer(BROKERS)
    for partition in producer.list_topics(topic, 10).topics[topic].partitions:
        for kind in (CONTENT_TYPE.replace(b".v1.", b".v2."), CONTENT_TYPE):
            producer.produce(topic, b"not a task", partition=partition, headers={"content-type": kind})
    if producer.flush(10):
        sys.exit("the broker does not take them")


def lag(group):
    consumer = Consumer({**BROKERS, "group.id": group, "enable.auto.commit": False})
    topics = consumer.list_topics(timeout=10).topics.values()
    places = [
        TopicPartition(topic.topic, partition)
        for topic in topics
        if topic.topic.startswith(f"{group}.")
        for partition in topic.partitions
    ]
    for place in consumer.committed(places, 10):
        _, end = consumer.get_watermark_offsets(place, 10)
        print(place.topic, place.partition, end - max(place.offset, 0))
    consumer.close()


{"disturb": disturb, "lag": lag}[sys.argv[1]](sys.argv[2])
