"""Delivers committed records to the listeners, in order, transactions as a whole.

Long work is divided into slices: a snapshot, or a batch of thousands of records, is decoded in pieces. A
listener applies a snapshot over several slices and keeps the old state until the last one. A batch is
delivered as a whole, so a listener never sees half a topic; but the partition changes that a broker failure
or return causes may be divided between two partitions, because each is a change of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ruslo.broker.quorum.log_listener import MetadataLogListener
from ruslo.broker.quorum.metadata_transactions import CommittedRun, TransactionFilter
from ruslo.machines.raft.snapshots import NO_SNAPSHOT, SnapshotId, SnapshotPolicy
from ruslo.protocol.message import Message
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord

MAX_RECORDS_PER_STEP = 125
"""A batch of this many records is decoded and delivered in several steps."""


class AppendedBatch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    size: int
    records: Sequence[Message]
    """Empty for a control batch, which listeners do not see."""


class CommitFeed:
    """What this node appended as leader is delivered from memory; everything else is read from the log."""

    def __init__(
        self,
        policy: SnapshotPolicy,
        listeners: Sequence[MetadataLogListener],
        read: Callable[[int, int], Iterator[AppendedBatch | None]],
    ) -> None:
        """``read``: whole batches of the log between two offsets; None after every ``MAX_RECORDS_PER_STEP``
        records of one."""
        self._listeners = listeners
        self._read = read
        self.applied = NO_SNAPSHOT
        """The end of what has been delivered; always between two batches."""
        self._policy = policy
        self._transactions = TransactionFilter()
        self._recent: deque[AppendedBatch] = deque()
        self._held = False
        self._delivering = False
        self._steps: Iterator[int] | None = None
        """The rest of a delivery; each step yields how many records it was about."""
        self._loading = False
        """A snapshot is being delivered."""
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
        """Deliver nothing until ``release``: the listeners' state is being read over several slices."""
        self._held = True

    def release(self) -> None:
        self._held = False

    def deliver(self, high_watermark: int, now_ms: int, max_records: int) -> bool:
        """Deliver what is committed; False if some is left. A listener may append from within."""
        if self._delivering or self._held:
            return True  # The outer call, or the one after the hold, continues.
        self._delivering = True
        try:
            count = 0
            while self._loading or self.applied.offset < high_watermark:
                if self._steps is None:
                    self._steps = self._deliver(high_watermark, now_ms)
                for records in self._steps:
                    count += records
                    if count >= max_records:
                        return not self._loading and self.applied.offset >= high_watermark
                self._steps = None
        finally:
            self._delivering = False
        return True

    def _deliver(self, high_watermark: int, now_ms: int) -> Iterator[int]:
        for batch in self._committed_batches(high_watermark):
            if batch is None:
                yield MAX_RECORDS_PER_STEP
            else:
                yield from self._apply(batch, now_ms)

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

    def _apply(self, batch: AppendedBatch, now_ms: int) -> Iterator[int]:
        for run in self._transactions.feed(batch.base_offset, batch.epoch, batch.records):
            for part in _divide(run):
                for listener in self._listeners:
                    listener.handle_commit(part.base_offset, part.epoch, part.records)
                    if len(run.records) >= MAX_RECORDS_PER_STEP:
                        self.is_within_batch = True
                        yield len(part.records)
        self.applied = SnapshotId(batch.end_offset, batch.epoch)
        self.is_within_batch = False
        if batch.records:
            self._policy.committed(batch.size, now_ms)
        # One for the batch itself: control batches have no records here.
        yield 1 + len(batch.records)

    def load_snapshot(self, id: SnapshotId, records: Iterable[Message]) -> None:
        """Replace everything; ``deliver`` delivers the snapshot."""
        self._policy.taken()
        self._steps, self._loading, self.is_within_batch = self._load(id, records), True, True
        self._transactions = TransactionFilter()
        self._recent.clear()

    def _load(self, id: SnapshotId, records: Iterable[Message]) -> Iterator[int]:
        decoded: list[Message] = []
        for record in records:
            decoded.append(record)
            if len(decoded) % MAX_RECORDS_PER_STEP == 0:
                yield MAX_RECORDS_PER_STEP
        for listener in self._listeners:
            for _ in listener.handle_snapshot(id.offset, id.epoch, decoded):
                yield MAX_RECORDS_PER_STEP
            yield len(decoded)
        self.applied = id
        self._loading = self.is_within_batch = False

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        for listener in self._listeners:
            listener.handle_leader_change(leader_id, epoch)


def _divide(run: CommittedRun) -> Iterator[CommittedRun]:
    """A long run, divided between changes of existing partitions, which are independent of each other."""
    records, start = run.records, 0
    for end in range(MAX_RECORDS_PER_STEP, 0 if run.is_transaction else len(records), MAX_RECORDS_PER_STEP):
        if all(isinstance(each, PartitionChangeRecord) for each in records[end - 1 : end + 1]):
            yield CommittedRun(run.base_offset + start, run.epoch, records[start:end])
            start = end
    if records:
        yield CommittedRun(run.base_offset + start, run.epoch, records[start:])
