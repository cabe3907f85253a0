"""Produce and consume helpers for confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

Headers = list[tuple[str, str | bytes | None]]
Settings = Mapping[str, str | int | bool]


class Sent(NamedTuple):
    """A record to produce; partition -1 leaves the choice to the partitioner."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: Headers | None = None
    timestamp_ms: int = 0


def produce_all(
    bootstrap: str,
    topic: str,
    records: Iterable[Sent],
    settings: Settings | None = None,
) -> list[Message]:
    """Produce records, wait for all acks, and return the messages in the order of the acks."""
    delivered: list[Message] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **(settings or {})})

    def on_delivery(error: object, message: Message) -> None:
        if error is not None:
            raise AssertionError(f"delivery failed: {error}")
        delivered.append(message)

    for record in records:
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp=record.timestamp_ms,
            on_delivery=on_delivery,
        )
        producer.poll(0)
    unsent = producer.flush(60)
    assert unsent == 0, f"{unsent} records were not acked"
    return delivered


def new_reader(bootstrap: str, settings: Settings | None = None) -> Consumer:
    """A consumer for assign(): librdkafka requires a group id, which has no effect."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            **(settings or {}),
        }
    )


def read_records(
    bootstrap: str,
    topic: str,
    partitions: int,
    count: int,
    *,
    offset: int = OFFSET_BEGINNING,
    settings: Settings | None = None,
    timeout_s: float = 60,
) -> list[Message]:
    """Read `count` records of all partitions, each from `offset` on, without a consumer group."""
    consumer = new_reader(bootstrap, settings)
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for partition in range(partitions)])
        return receive(consumer, count, timeout_s)
    finally:
        consumer.close()


def close_member(consumer: Consumer) -> None:
    """Close a group member: librdkafka's close may hang in a rebalance that is not handled.

    Records that have arrived are dropped, so the member must not store their offsets by itself.
    """
    consumer.consume(1_000, 0)
    consumer.close()


def receive(consumer: Consumer, count: int, timeout_s: float = 60) -> list[Message]:
    """The next `count` records of a consumer; AssertionError after the timeout."""
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"only {len(messages)} of {count} records received"
        for message in consumer.consume(count - len(messages), timeout=1.0):
            error = message.error()
            if error is not None:
                raise AssertionError(f"consumer error: {error}")
            messages.append(message)
    return messages


def by_partition(messages: Iterable[Message]) -> dict[int, list[Message]]:
    """Messages by partition, in order of arrival."""
    groups: dict[int, list[Message]] = {}
    for message in messages:
        partition = message.partition()
        assert partition is not None
        groups.setdefault(partition, []).append(message)
    return groups
