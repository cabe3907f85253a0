"""The progress of a consumer: only records that the application has processed are committed.

A record is *delivered* when ``poll`` or the iterator returns it, and *processed* when the application
requests the next one. librdkafka alone would count a record as processed on delivery, so its automatic
commits could skip records that a crash kept from being processed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ruslo.model.topics import TopicPartition


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the previous record (KIP-320), -1 if unknown."""

    offset: int
    leader_epoch: int


class ConsumerProgress:
    def __init__(self) -> None:
        self._processed: dict[TopicPartition, Position] = {}
        self._delivered: dict[TopicPartition, Position] = {}
        self._not_stored: set[TopicPartition] = set()

    def deliver(self, partition: TopicPartition, offset: int, leader_epoch: int | None) -> None:
        self._delivered[partition] = Position(offset + 1, -1 if leader_epoch is None else leader_epoch)

    def undeliver(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo every ``deliver`` to these partitions since the last ``mark_processed``."""
        for partition in partitions:
            self._delivered.pop(partition, None)

    def mark_processed(self) -> None:
        if self._delivered:
            self._processed.update(self._delivered)
            self._not_stored.update(self._delivered)
            self._delivered.clear()

    def take_to_store(self) -> dict[TopicPartition, Position]:
        """The positions that were processed since the last call."""
        chosen = {partition: self._processed[partition] for partition in self._not_stored}
        self._not_stored.clear()
        return chosen

    def positions(self) -> dict[TopicPartition, Position]:
        """The positions after all delivered records, processed or not."""
        return {**self._processed, **self._delivered}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._processed.pop(partition, None)
            self._delivered.pop(partition, None)
            self._not_stored.discard(partition)
