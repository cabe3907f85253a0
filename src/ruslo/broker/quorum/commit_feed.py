"""Delivers committed records to the listeners, in order, transactions as a whole.

Delivery is work for the scheduler: a snapshot, or a batch of thousands of records, is decoded record by
record. A listener applies a snapshot over several steps and keeps the old state until the last one. A batch
is delivered as a whole, so a listener never sees half a topic; but the partition changes that a broker
failure or return causes may be divided between two partitions, because each is a change of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.broker.quorum.log_listener import MetadataLogListener
from ruslo.broker.quorum.metadata_transactions import CommittedRun, TransactionFilter
from ruslo.broker.scheduling.scheduler import Steps
from ruslo.machines.raft.snapshots import NO_SNAPSHOT, SnapshotId, SnapshotPolicy
from ruslo.model.clock import Clock
from ruslo.protocol.message import Message
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord

MAX_RECORDS_PER_DELTA = 125
"""A batch of more partition changes reaches the listeners as several deltas, each in a step of its own."""


class AppendedBatch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    size: int
    records: Sequence[Message]
    """Empty for a control batch, which listeners do not see."""


@dataclass(eq=False)
class CommitFeed:
    """What this node appended as leader is delivered from memory; everything else is read from the log."""

    _policy: SnapshotPolicy
    _listeners: Sequence[MetadataLogListener]
    _read: Callable[[int, int], Iterator[AppendedBatch | None]]
    """Reads whole batches of the log between two offsets; yields None after every record of one."""
    _clock: Clock

    def __post_init__(self) -> None:
        self.applied = NO_SNAPSHOT
        """The end of what has been delivered; always between two batches."""
        self._transactions = TransactionFilter()
        self._recent: deque[AppendedBatch] = deque()
        self._held = False
        self._steps: Iterator[None] | None = None
        """The rest of a delivery, of a snapshot too."""
        self.is_within_batch = False
        """Some listeners have got a batch, or a part of one, and others not yet."""

    @property
    def in_transaction(self) -> bool:
        return self._transactions.is_open

    def appended(self, batch: AppendedBatch) -> None:
        self._recent.append(batch)

    def truncated(self, end_offset: int) -> None:
        """Drop batches beyond ``end_offset``: they were never committed, so never delivered."""
        assert end_offset >= self.applied.offset, "committed records are never truncated"
        while self._recent and self._recent[-1].end_offset > end_offset:
            self._recent.pop()

    def hold(self) -> None:
        """Deliver nothing until ``release``: the listeners' state is being read over several steps."""
        self._held = True

    def release(self) -> None:
        self._held = False

    def deliver(self, high_watermark: Callable[[], int]) -> Steps[None]:
        """Deliver what is committed, and what is committed meanwhile. A listener may append from within."""
        while not self._held:
            if self._steps is None:
                if self.applied.offset >= high_watermark():
                    return
                self._steps = self._deliver(high_watermark())
            steps = self._steps
            for _ in steps:
                break
            else:
                if self._steps is steps:
                    self._steps = None
            yield

    def _deliver(self, high_watermark: int) -> Iterator[None]:
        for batch in self._committed_batches(high_watermark):
            if batch is not None:
                yield from self._apply(batch)
            yield

    def _committed_batches(self, high_watermark: int) -> Iterator[AppendedBatch | None]:
        recent = self._recent
        while (offset := self.applied.offset) < high_watermark:
            while recent and recent[0].base_offset < offset:
                recent.popleft()
            if recent and recent[0].base_offset == offset:
                yield recent.popleft()
            else:
                until = min(high_watermark, recent[0].base_offset) if recent else high_watermark
                yield from self._read(offset, until)

    def _apply(self, batch: AppendedBatch) -> Iterator[None]:
        self.is_within_batch = True
        for run in self._transactions.feed(batch.base_offset, batch.epoch, batch.records):
            for part in _divide(run):
                for listener in self._listeners:
                    listener.handle_commit(part.base_offset, part.epoch, part.records)
                    if len(run.records) >= MAX_RECORDS_PER_DELTA:
                        yield
        self.applied = SnapshotId(batch.end_offset, batch.epoch)
        self.is_within_batch = False
        if batch.records:
            self._policy.committed(batch.size, self._clock.monotonic_ms())

    def load_snapshot(self, id: SnapshotId, records: Iterable[Message]) -> None:
        """Replace everything; ``deliver`` delivers the snapshot."""
        self._policy.taken()
        self._steps, self.is_within_batch = self._load(id, records), True
        self._transactions = TransactionFilter()
        self._recent.clear()

    def _load(self, id: SnapshotId, records: Iterable[Message]) -> Iterator[None]:
        decoded: list[Message] = []
        for record in records:
            decoded.append(record)
            yield
        for listener in self._listeners:
            yield from listener.handle_snapshot(id.offset, id.epoch, decoded)
            yield
        self.applied = id
        self.is_within_batch = False

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        for listener in self._listeners:
            listener.handle_leader_change(leader_id, epoch)


def _divide(run: CommittedRun) -> Iterator[CommittedRun]:
    """A long run, divided between changes of existing partitions, which are independent of each other."""
    records, start = run.records, 0
    for end in range(MAX_RECORDS_PER_DELTA, 0 if run.is_transaction else len(records), MAX_RECORDS_PER_DELTA):
        if all(isinstance(each, PartitionChangeRecord) for each in records[end - 1 : end + 1]):
            yield CommittedRun(run.base_offset + start, run.epoch, records[start:end])
            start = end
    if records:
        yield CommittedRun(run.base_offset + start, run.epoch, records[start:])
