"""Everything of a log that any node has ever shown to be committed, and what of it may be deleted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.records.batch import BatchHeader
from ruslo.records.reader import iter_batches
from ruslo.storage.damage import DamagedRange
from ruslo.storage.log import Log
from ruslo.testing.simulation.nodes.keyed_records import KeyedRecords

NO_GAPS = "a log lacks only records that retention or compaction may delete"
LAST_OF_KEY_KEPT = "the last record of every key survives compaction"
_READ_BYTES = 1 << 20


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    crc: int


class Difference(NamedTuple):
    """A difference between a replica and the committed log."""

    broken: str | None
    """The invariant that it breaks; None: the one that is being checked."""
    what: str


@dataclass(slots=True)
class Retention:
    """The union of all retention settings that a partition has ever had."""

    bytes: int = -1
    ms: int = -1
    requested_offset: int = 0
    """The largest offset of a DeleteRecords request."""


@dataclass(slots=True)
class CommittedLog:
    batches: list[Batch] = field(default_factory=list)
    committed_in: list[int] = field(default_factory=list)
    """For each batch the epoch of the leader that committed it, or a later one."""
    at: dict[int, Batch] = field(default_factory=dict)
    sequences: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The epoch and next sequence of each producer id."""
    is_void: bool = False
    """More was lost at once than the guarantees cover: they no longer hold."""
    keyed: KeyedRecords | None = None
    """Set if the partition is compacted."""
    retention: Retention | None = None
    """Set if records of the partition may be deleted."""
    deleted_below: int = 0
    """Some replica has deleted records up to here; a power failure may restore some of them."""
    _timestamps: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def end_before(self, epoch: int) -> int:
        """A leader of this epoch must have everything up to this offset."""
        known = bisect_left(self.committed_in, epoch)
        return self.batches[known - 1].last_offset + 1 if known else 0

    def extend(self, batch: Batch, header: BatchHeader, content: memoryview, epoch: int) -> None:
        """``epoch``: the epoch of the leader that committed it."""
        if self.keyed is not None:
            self.keyed.committed(header, content)
        self.batches.append(batch)
        self.at[batch.base_offset] = batch
        self.committed_in.append(max(epoch, self.committed_in[-1] if self.committed_in else 0))
        self._timestamps.append(header.max_timestamp)

    def may_start_at(self, start: int, log: Log, now_ms: int) -> bool:
        """Whether the replica ``log`` may have deleted everything before ``start``."""
        retention = self.retention
        if start <= self.deleted_below:
            return True
        if retention is None or start > self.end:
            return False
        if start <= retention.requested_offset:
            return True
        if 0 <= retention.bytes <= log.size_bytes:
            return True
        first = bisect_left(self.batches, (self.deleted_below,))
        return retention.ms >= 0 and all(
            timestamp < now_ms - retention.ms
            for batch, timestamp in zip(self.batches[first:], self._timestamps[first:], strict=True)
            if batch.last_offset < start
        )

    def difference(self, log: Log, start: int, end: int) -> Difference | None:
        """Compare a replica in a range of committed offsets."""
        start = max(start, log.start_offset, self.deleted_below)
        if self.keyed is not None:
            return self._difference_of_keyed(self.keyed, log, start, end)
        at = bisect_left(self.batches, (start,))
        for batch, _, _ in batches_of(log, start, end):
            if self.at.get(batch.base_offset) != batch:
                return Difference(None, f"{batch}, committed is {self.at.get(batch.base_offset)}")
            if batch.base_offset >= start:
                if batch != self.batches[at]:
                    return Difference(NO_GAPS, f"{batch}, but not {self.batches[at]}")
                at += 1
        if at < len(self.batches) and self.batches[at].last_offset < end:
            return Difference(NO_GAPS, f"missing: {self.batches[at]}")
        return None

    def _difference_of_keyed(self, keyed: KeyedRecords, log: Log, start: int, end: int) -> Difference | None:
        found: set[int] = set()
        for batch, header, content in batches_of(log, start, end):
            committed = self.at.get(batch.base_offset)
            if committed == batch:
                found.update(keyed.between(batch.base_offset, batch.last_offset + 1))
                continue
            if committed is None or committed[:3] != batch[:3]:
                return Difference(None, f"{batch}, committed is {committed}")
            wrong = None if header.is_control else keyed.first_mismatch(content, found)
            if wrong is not None:
                return Difference(None, wrong)
        lost = keyed.lost(start, end, found)
        return None if lost is None else Difference(LAST_OF_KEY_KEPT, f"without {lost}")

    def first_gap(self, log: Log, start: int) -> str | None:
        """The first offsets before the end of a replica that it lacks."""
        expected = max(start, log.start_offset, self.deleted_below, self.end if self.keyed is not None else 0)
        try:
            for batch, _, _ in batches_of(log, expected, log.end_offset):
                if batch.base_offset > expected:
                    return f"{expected} to {batch.base_offset - 1}"
                expected = batch.last_offset + 1
        except DamagedRange as damaged:
            return str(damaged)
        return f"{expected} to {log.end_offset - 1}" if expected < log.end_offset else None


def batches_of(log: Log, start: int, end: int) -> Iterator[tuple[Batch, BatchHeader, memoryview]]:
    offset = max(start, log.start_offset)
    while offset < end:
        read = log.read(offset, _READ_BYTES, end)
        if read.slice is None:
            return
        content = memoryview(read.slice.read())
        for position, header in iter_batches(content):
            if header.last_offset >= start:
                batch = Batch(header.base_offset, header.last_offset, header.leader_epoch, header.crc)
                yield batch, header, content[position : position + header.size]
            offset = header.last_offset + 1
