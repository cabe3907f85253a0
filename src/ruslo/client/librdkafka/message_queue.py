"""Messages that librdkafka has handed over and the user has not asked for yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ruslo.client.librdkafka.consumed_record import partition_of, place_of
from ruslo.client.librdkafka.errors import translated
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

_SLICE_S = 0.1
"""Waits inside librdkafka are cut into such slices: between them Python hears Ctrl-C."""
_SERVE_EVERY_S = 1.0


class MessageQueue:
    """Taking messages by the hundred is what makes reading them one by one quick."""

    def __init__(self, handle: confluent_kafka.Consumer, batch_size: int) -> None:
        self._handle = handle
        self._batch_size = batch_size
        self._messages: deque[confluent_kafka.Message] = deque()
        self._served_at = time.monotonic()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def peek(self) -> confluent_kafka.Message:
        return self._messages[0]

    def pop(self) -> None:
        self._messages.popleft()

    def put_back(self, messages: Sequence[confluent_kafka.Message]) -> None:
        """To where they were popped from."""
        self._messages.extendleft(reversed(messages))

    @property
    def unserved(self) -> bool:
        """librdkafka must be called now and then: for rebalances, and so that max.poll.interval.ms holds."""
        return time.monotonic() - self._served_at >= _SERVE_EVERY_S

    def fill(self, timeout_s: float) -> None:
        """Wait for a message, then take those that have arrived as well. Rebalance callbacks run in here."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            with translated():
                first = self._handle.poll(min(left_s, _SLICE_S))
            self._served_at = time.monotonic()
            if first is not None:
                break
            if left_s <= _SLICE_S:
                return
        # At once: a rebalance inside consume() may take its partition away, or raise what a callback did.
        self._messages.append(first)
        # consume() waits until it has all it was asked for, so it only takes what has arrived already.
        with translated():
            more = self._handle.consume(self._batch_size - 1, 0) if self._batch_size > 1 else []
        self._messages.extend(more)

    def first_offset(self, partition: TopicPartition) -> int | None:
        return next(
            (
                place_of(message)[1]
                for message in self._messages
                if message.error() is None and place_of(message)[0] == partition
            ),
            None,
        )

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        self._messages = deque(message for message in self._messages if partition_of(message) not in gone)

    def clear(self) -> None:
        self._messages.clear()
