"""How far a consumer is, so that only records whose processing is over are committed.

A record is *given out* when poll or the iteration returns it, and *finished* when the next one is asked for.
librdkafka alone would count it as done when it is handed over, and its commits by the clock could pass over
records that a crash has kept from being processed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ruslo.model.topics import TopicPartition


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the record before it (KIP-320), -1 if unknown."""

    offset: int
    leader_epoch: int


class ConsumerProgress:
    def __init__(self) -> None:
        self._finished: dict[TopicPartition, Position] = {}
        self._given: dict[TopicPartition, Position] = {}
        self._not_stored: set[TopicPartition] = set()

    def give(self, partition: TopicPartition, offset: int, leader_epoch: int | None) -> None:
        self._given[partition] = Position(offset + 1, -1 if leader_epoch is None else leader_epoch)

    def take_back(self, partitions: Iterable[TopicPartition]) -> None:
        """What was given out of these since the last ``finish`` has not reached anybody."""
        for partition in partitions:
            self._given.pop(partition, None)

    def finish(self) -> None:
        if self._given:
            self._finished.update(self._given)
            self._not_stored.update(self._given)
            self._given.clear()

    def take_to_store(self) -> dict[TopicPartition, Position]:
        """What was finished since the last call."""
        chosen = {partition: self._finished[partition] for partition in self._not_stored}
        self._not_stored.clear()
        return chosen

    def positions(self) -> dict[TopicPartition, Position]:
        """Behind everything that was given out, finished or not."""
        return {**self._finished, **self._given}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._finished.pop(partition, None)
            self._given.pop(partition, None)
            self._not_stored.discard(partition)
