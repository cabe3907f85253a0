"""Hands committed records to those who listen, in order, transactions whole.

All of it goes in short turns, however much there is. A snapshot, or a batch of thousands of records, is
decoded in pieces. A listener takes a snapshot in over several turns, and keeps to the state before until the
last of them. A batch is handed out whole, so that nobody ever sees half a topic; but what a broker's coming
or going changes in thousands of partitions is cut between two of them, for each is a change of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ruslo.broker.quorum.metadata_log import MetadataLogListener
from ruslo.broker.quorum.metadata_transactions import CommittedRun, TransactionFilter
from ruslo.machines.raft.snapshots import NO_SNAPSHOT, SnapshotId, SnapshotPolicy
from ruslo.protocol.message import Message
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord

LONG_BATCH = 125
"""With so many records each of the steps that a batch takes deserves a turn."""


class AppendedBatch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    size: int
    records: Sequence[Message]
    """Empty for a control batch, which is the quorum's own affair."""


class CommitFeed:
    """What a leader appends is handed out as it was given; everything else is read from the log."""

    def __init__(self, policy: SnapshotPolicy) -> None:
        self.listeners: list[MetadataLogListener] = []
        self.read: Callable[[int, int], Iterator[AppendedBatch | None]] = _nothing_to_read
        """Whole batches of the log between two offsets; None after ``LONG_BATCH`` records of one."""
        self.applied = NO_SNAPSHOT
        """The end of what the listeners have been given; always between two batches."""
        self._policy = policy
        self._transactions = TransactionFilter()
        self._recent: deque[AppendedBatch] = deque()
        self._held = False
        self._delivering = False
        self._steps: Iterator[int] | None = None
        """What is left of a delivery; tells how many records each step was about."""
        self._loading = False
        """A snapshot is being handed out."""
        self.amid_batch = False
        """Some listeners have been given a batch, or a piece of one, and others not yet."""

    @property
    def in_transaction(self) -> bool:
        return self._transactions.is_open

    def appended(self, batch: AppendedBatch) -> None:
        self._recent.append(batch)

    def truncated(self, end_offset: int) -> None:
        """What lies behind has never been committed, so nobody has seen it."""
        assert end_offset >= self.applied.offset, "committed records are never cut off"
        while self._recent and self._recent[-1].end_offset > end_offset:
            self._recent.pop()

    def hold(self) -> None:
        """Deliver nothing until ``release``: someone reads the listeners' state over several turns."""
        self._held = True

    def release(self) -> None:
        self._held = False

    def deliver(self, high_watermark: int, now_ms: int, max_records: int) -> bool:
        """Hand out what has committed; False if there is more of it. A listener may append from within."""
        if self._delivering or self._held:
            return True  # The outer call, or the one after the hold, goes on with it.
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
        for batch in self._committed(high_watermark):
            if batch is None:
                yield LONG_BATCH
            else:
                yield from self._apply(batch, now_ms)

    def _committed(self, high_watermark: int) -> Iterator[AppendedBatch | None]:
        recent = self._recent
        while (offset := self.applied.offset) < high_watermark:
            while recent and recent[0].base_offset < offset:
                recent.popleft()
            if recent and recent[0].base_offset == offset:
                yield recent.popleft()
            else:
                until = min(high_watermark, recent[0].base_offset) if recent else high_watermark
                yield from self.read(offset, until)

    def _apply(self, batch: AppendedBatch, now_ms: int) -> Iterator[int]:
        for run in self._transactions.feed(batch.base_offset, batch.epoch, batch.records):
            for piece in _pieces(run):
                for listener in self.listeners:
                    listener.handle_commit(piece.base_offset, piece.epoch, piece.records)
                    if len(run.records) >= LONG_BATCH:
                        self.amid_batch = True
                        yield len(piece.records)
        self.applied = SnapshotId(batch.end_offset, batch.epoch)
        self.amid_batch = False
        if batch.records:
            self._policy.committed(batch.size, now_ms)
        # One for the batch itself: control batches have no records here.
        yield 1 + len(batch.records)

    def load_snapshot(self, id: SnapshotId, records: Iterable[Message]) -> None:
        """It takes the place of all there was; ``deliver`` hands it out."""
        self._steps, self._loading, self.amid_batch = self._load(id, records), True, True
        self._transactions = TransactionFilter()
        self._recent.clear()

    def _load(self, id: SnapshotId, records: Iterable[Message]) -> Iterator[int]:
        decoded: list[Message] = []
        for record in records:
            decoded.append(record)
            if len(decoded) % LONG_BATCH == 0:
                yield LONG_BATCH
        for listener in self.listeners:
            for _ in listener.handle_snapshot(id.offset, id.epoch, decoded):
                yield LONG_BATCH
            yield len(decoded)
        self.applied = id
        self._loading = self.amid_batch = False

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        for listener in self.listeners:
            listener.handle_leader_change(leader_id, epoch)


def _pieces(run: CommittedRun) -> Iterator[CommittedRun]:
    """A long run, cut between changes of partitions that exist: each of them stands for itself."""
    records, start = run.records, 0
    for end in range(LONG_BATCH, 0 if run.is_transaction else len(records), LONG_BATCH):
        if all(isinstance(each, PartitionChangeRecord) for each in records[end - 1 : end + 1]):
            yield CommittedRun(run.base_offset + start, run.epoch, records[start:end])
            start = end
    if records:
        yield CommittedRun(run.base_offset + start, run.epoch, records[start:])


def _nothing_to_read(from_offset: int, to_offset: int) -> Iterator[AppendedBatch | None]:
    raise AssertionError("the log is open before anything is delivered")
