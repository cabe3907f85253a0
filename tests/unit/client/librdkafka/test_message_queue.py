"""Messages between librdkafka and the application."""

from __future__ import annotations

from typing import cast

import confluent_kafka
import pytest

from ruslo.client.librdkafka.message_queue import MessageQueue
from ruslo.model.topics import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Message:
    """A record with the fields that the queue reads."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        self._partition = partition
        self._offset = offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self._partition.topic

    def partition(self) -> int:
        return self._partition.partition

    def offset(self) -> int:
        return self._offset


class Handle:
    """A consumer that returns one message from poll; the test defines consume."""

    def __init__(self) -> None:
        self.queue = MessageQueue(cast(confluent_kafka.Consumer, self), 10)
        self.more: list[Message] = []
        self.revokes: TopicPartition | None = None
        self.problem: Exception | None = None

    def poll(self, timeout_s: float) -> Message:
        return Message(A, 0)

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        if self.revokes is not None:
            self.queue.drop([self.revokes])
        if self.problem is not None:
            raise self.problem
        return self.more

    def polled(self) -> list[tuple[int, int | None]]:
        polled = []
        while self.queue:
            message = self.queue.peek()
            polled.append((message.partition() or 0, message.offset()))
            self.queue.pop()
        return polled


def test_arrived_messages_keep_their_order() -> None:
    handle = Handle()
    handle.more = [Message(B, 5), Message(A, 1)]
    handle.queue.fill(1)
    assert handle.polled() == [(0, 0), (1, 5), (0, 1)]


def test_a_failing_callback_loses_no_record() -> None:
    handle = Handle()
    handle.problem = ZeroDivisionError("in on_revoke, of another partition")
    handle.revokes = B
    with pytest.raises(ZeroDivisionError):
        handle.queue.fill(1)
    assert handle.polled() == [(0, 0)]


def test_records_of_revoked_partitions_are_dropped() -> None:
    handle = Handle()
    handle.more = [Message(B, 5)]
    handle.revokes = A
    handle.queue.fill(1)
    assert handle.polled() == [(1, 5)]
