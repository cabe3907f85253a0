"""Transactions with confluent-kafka, shared by tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from random import Random
from types import TracebackType
from typing import Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.support.clients.librdkafka import Settings, close_member
from tests.support.groups.group_members import position_of

CALL_S = 30
FENCED_ERRORS = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH)


def new_transactional(bootstrap: str, transactional_id: str, settings: Settings | None = None) -> Producer:
    """An initialized producer; earlier producers of the id are fenced."""
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
    values = [message.value() for message in committed_messages(bootstrap, topic, partitions)]
    return [value for value in values if value is not None]


def committed_messages(bootstrap: str, topic: str, partitions: int = 1) -> list[Message]:
    """Whole records, up to the last stable offset of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            # A waiting fetch completes with the next record, so a busy topic would never report its end.
            "fetch.wait.max.ms": 1,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    messages: list[Message] = []
    unfinished = set(range(partitions))
    deadline = time.monotonic() + 60
    while unfinished:
        assert time.monotonic() < deadline, f"no end of partitions {unfinished} of {topic}"
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            partition = message.partition()
            assert partition is not None
            unfinished.discard(partition)
        else:
            raise AssertionError(f"reading {topic} failed: {error}")
    consumer.close()
    return messages


class Feed(threading.Thread):
    """Produces records at a steady rate with an idempotent producer until ``stop``."""

    RECORDS_PER_S = 250

    def __init__(self, bootstrap: str, topic: str, values: Sequence[str], random: Random) -> None:
        super().__init__(name=f"feed of {topic}")
        self._topic = topic
        self._values = values
        self._random = Random(random.random())
        self._stopping = threading.Event()
        self._sent: list[str] = []
        self._failures: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )

    def run(self) -> None:
        pace_s = 0.02
        while not self._stopping.wait(pace_s):
            for _ in range(int(self.RECORDS_PER_S * pace_s)):
                value = self._random.choice(self._values)
                key = str(len(self._sent))
                self._producer.produce(self._topic, value, key, on_delivery=self._on_delivery)
                self._sent.append(value)
            self._producer.poll(0)
        if self._producer.flush(CALL_S):
            self._failures.append("some records were never acked")

    def stop(self) -> list[str]:
        """Return all sent values; raises AssertionError if one was not acknowledged."""
        self._stopping.set()
        self.join()
        assert self._failures == []
        return self._sent

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self.join()

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(str(error))


class Copier:
    """Copies a topic to another exactly once: reads, writes and commits offsets in one transaction."""

    def __init__(
        self,
        bootstrap: str,
        source: str,
        target: str,
        group: str,
        transactional_id: str,
        *,
        consumer_settings: Settings | None = None,
        producer_settings: Settings | None = None,
    ) -> None:
        self._target = target
        self._producer = new_transactional(bootstrap, transactional_id, producer_settings)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
                **(consumer_settings or {}),
            }
        )
        self._closing = False
        self._incremental = (consumer_settings or {}).get("group.protocol") == "consumer"
        # With a callback librdkafka revokes partitions only within ``consume``, so never while their records
        # are in an open transaction: the next owner would copy them too.
        self._consumer.subscribe([source], on_assign=self._begin, on_revoke=lambda consumer, partitions: None)

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Start at the committed offsets. librdkafka itself would start at the beginning if the assignment
        changes while the open transaction of a dead worker delays an offset."""
        if self._closing:
            return
        assign = consumer.incremental_assign if self._incremental else consumer.assign
        assign(self._committed(partitions))

    def step(self, size: int, *, commit: bool = True) -> int:
        """Run one transaction with up to ``size`` records and return their number."""
        # Read before the records: a member that was fenced and has rejoined in the meantime must not commit
        # with its new epoch, because another member may own the partitions.
        membership = self._consumer.consumer_group_metadata()
        messages = [each for each in self._consumer.consume(size, 0.5) if each.error() is None]
        if not messages:
            return 0
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(self._target, message.value(), message.key())
        self._producer.send_offsets_to_transaction(_next_positions(messages), membership, CALL_S)
        if commit:
            self._producer.commit_transaction(CALL_S)
        else:
            self.abort()
        return len(messages)

    def abort(self) -> None:
        """Abort, and seek to the committed offsets: this member or another one reads the records again."""
        self._producer.abort_transaction(CALL_S)
        for tp in self._committed(self._consumer.assignment()):
            self._consumer.seek(tp)

    def _committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The committed offsets, or the beginning; waits for open transactions.

        Returns nothing for a removed member: it starts again when it has rejoined.
        """
        deadline = time.monotonic() + CALL_S
        while True:
            try:
                tps = self._consumer.committed(partitions, CALL_S)
                errors = [tp.error for tp in tps if tp.error is not None]
            except KafkaException as failed:
                errors = [failed.args[0]]
            if any(error.code() in FENCED_ERRORS for error in errors):
                return []
            if not errors:
                break
            assert time.monotonic() < deadline, errors[0]
            time.sleep(0.1)
        for tp in tps:
            if tp.offset < 0:
                tp.offset = OFFSET_BEGINNING
        return tps

    def close(self) -> None:
        self._closing = True
        close_member(self._consumer)


def _next_positions(messages: Iterable[Message]) -> list[TopicPartition]:
    """The positions after these records."""
    positions: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = position_of(message)
        positions[topic, partition] = offset + 1
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
