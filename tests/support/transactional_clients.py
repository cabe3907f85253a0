"""Transactions with confluent-kafka, in the few lines that many tests share."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.support.librdkafka import Settings

CALL_S = 30


def new_transactional(bootstrap: str, transactional_id: str, settings: Settings | None = None) -> Producer:
    """An initialised producer; whoever had the id before is fenced."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
            **(settings or {}),
        }
    )
    producer.init_transactions(CALL_S)
    return producer


def read_committed(bootstrap: str, topic: str, partitions: int = 1) -> list[bytes]:
    """All values up to the last stable offset of each partition, in no order across partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    values: list[bytes] = []
    unfinished = set(range(partitions))
    deadline = time.monotonic() + 60
    while unfinished:
        assert time.monotonic() < deadline, f"no end of partitions {unfinished} of {topic}"
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            value = message.value()
            assert value is not None
            values.append(value)
        elif error.code() == KafkaError._PARTITION_EOF:
            partition = message.partition()
            assert partition is not None
            unfinished.discard(partition)
        else:
            raise AssertionError(f"reading {topic} failed: {error}")
    consumer.close()
    return values


class Copier:
    """Copies a topic to another exactly once: reads, writes and commits offsets in one transaction."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
        self._source = source
        self._target = target
        self._producer = new_transactional(bootstrap, transactional_id)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.subscribe([source])

    def step(self, size: int, *, commit: bool = True) -> int:
        """One transaction with up to ``size`` records; returns how many there were."""
        messages = [each for each in self._consumer.consume(size, 0.5) if each.error() is None]
        if not messages:
            return 0
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(self._target, value=message.value())
        self._producer.send_offsets_to_transaction(
            self._consumer.position(self._consumer.assignment()),
            self._consumer.consumer_group_metadata(),
            CALL_S,
        )
        if commit:
            self._producer.commit_transaction(CALL_S)
        else:
            self._producer.abort_transaction(CALL_S)
            self._go_back()
        return len(messages)

    def close(self) -> None:
        self._consumer.close()

    def _go_back(self) -> None:
        """To what is committed: the records of the aborted transaction come again."""
        for place in self._consumer.committed(self._consumer.assignment(), CALL_S):
            if place.offset < 0:
                place.offset = OFFSET_BEGINNING
            self._consumer.seek(place)
