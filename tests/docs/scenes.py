"""Prepares the state that a page assumes: ``python -m tests.docs.scenes SCENE …`` before a block."""

from __future__ import annotations

import os
import sys

from confluent_kafka import Consumer, Producer, TopicPartition


def group(name: str, topic: str) -> None:
    """A group that has read part of a topic and whose members have left."""
    producer = Producer({"bootstrap.servers": _bootstrap()})
    for number in range(10):
        producer.produce(topic, f"record {number}", partition=0)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": _bootstrap(), "group.id": name})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    begun = [TopicPartition(topic, index, 4 if index == 0 else 0) for index in partitions]
    consumer.commit(offsets=begun, asynchronous=False)
    consumer.close()


def records(topic: str, count: str) -> None:
    """Records in partition 0."""
    producer = Producer({"bootstrap.servers": _bootstrap()})
    for number in range(int(count)):
        producer.produce(topic, f"record {number}", partition=0)
    producer.flush()


def transaction(transactional_id: str, topic: str) -> None:
    """A transaction that stays open: its producer ends without ending it."""
    producer = Producer(
        {
            "bootstrap.servers": _bootstrap(),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush()
    os._exit(0)


def _bootstrap() -> str:
    return os.environ["RUSLO_BOOTSTRAP"]


if __name__ == "__main__":
    {"group": group, "records": records, "transaction": transaction}[sys.argv[1]](*sys.argv[2:])
