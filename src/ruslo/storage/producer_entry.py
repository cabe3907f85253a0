"""The state of one producer id in a partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.records.batch import NO_SEQUENCE

NO_PRODUCER_EPOCH = -1
NO_COORDINATOR_EPOCH = -1
NO_OFFSET = -1
REMEMBERED_BATCHES = 5
"""An idempotent producer has at most this many requests in flight, so no older duplicate can arrive."""
SEQUENCE_MASK = 0x7FFF_FFFF
"""Sequences wrap from 2^31 - 1 to 0."""


class BatchMetadata(NamedTuple):
    """What the duplicate check needs to know about a batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True, eq=False)
class ProducerEntry:
    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    batches: list[BatchMetadata] = field(default_factory=list)
    next_sequence: int = 0
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    transaction_start: int = NO_OFFSET
    """First offset of the open transaction, -1 if no transaction is open."""
    last_timestamp: int = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def move_to_epoch(self, epoch: int) -> None:
        """Start a new epoch: sequences start at 0, and earlier batches are not duplicates any more."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def add_batch(self, batch: BatchMetadata) -> None:
        batches = self.batches
        batches.append(batch)
        if len(batches) > REMEMBERED_BATCHES:
            del batches[0]
        self.next_sequence = (batch[0] + 1) & SEQUENCE_MASK
        self.last_timestamp = batch[3]

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def is_in_open_transaction(self, batch: BatchMetadata) -> bool:
        return NO_OFFSET != self.transaction_start <= batch.first_offset
