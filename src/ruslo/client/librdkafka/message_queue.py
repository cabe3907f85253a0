"""Messages that librdkafka has returned and the application has not requested yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ruslo.client.librdkafka.consumed_record import partition_of, position_of
from ruslo.client.librdkafka.errors import translated
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

_POLL_MAX_S = 0.1
"""The longest call into librdkafka: Python handles Ctrl-C between calls."""
_POLL_INTERVAL_S = 1.0


class MessageQueue:
    """Takes hundreds of messages per call, which makes iteration over single records fast."""

    def __init__(self, handle: confluent_kafka.Consumer, batch_size: int) -> None:
        self._handle = handle
        self._batch_size = batch_size
        self._messages: deque[confluent_kafka.Message] = deque()
        self._polled_at = time.monotonic()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def peek(self) -> confluent_kafka.Message:
        return self._messages[0]

    def pop(self) -> None:
        self._messages.popleft()

    def put_back(self, messages: Sequence[confluent_kafka.Message]) -> None:
        """Return popped messages to the front."""
        self._messages.extendleft(reversed(messages))

    @property
    def poll_due(self) -> bool:
        """librdkafka must be polled regularly, for rebalances and ``max.poll.interval.ms``."""
        return time.monotonic() - self._polled_at >= _POLL_INTERVAL_S

    def fill(self, timeout_s: float) -> None:
        """Wait for a message, then take the others that have arrived. Rebalance callbacks run in here."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            with translated():
                first = self._handle.poll(min(left_s, _POLL_MAX_S))
            self._polled_at = time.monotonic()
            if first is not None:
                break
            if left_s <= _POLL_MAX_S:
                return
        # Queue it now: a rebalance inside consume() may revoke its partition, or raise a callback's error.
        self._messages.append(first)
        # consume() waits for the full count, so a timeout of 0 takes only what has arrived.
        with translated():
            more = self._handle.consume(self._batch_size - 1, 0) if self._batch_size > 1 else []
        self._messages.extend(more)

    def first_offset(self, partition: TopicPartition) -> int | None:
        return next(
            (
                position_of(message)[1]
                for message in self._messages
                if message.error() is None and position_of(message)[0] == partition
            ),
            None,
        )

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        dropped = set(partitions)
        self._messages = deque(message for message in self._messages if partition_of(message) not in dropped)

    def clear(self) -> None:
        self._messages.clear()
