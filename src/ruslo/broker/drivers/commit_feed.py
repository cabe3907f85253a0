"""Hands committed records to those who listen, in order, batches and transactions whole.

A batch of thousands of records is decoded in pieces, and each listener is given it in a turn of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ruslo.broker.drivers.metadata_log import MetadataLogListener
from ruslo.broker.drivers.metadata_transactions import TransactionFilter
from ruslo.machines.raft.snapshots import NO_SNAPSHOT, SnapshotId, SnapshotPolicy
from ruslo.protocol.message import Message

LONG_BATCH = 500
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
        self.amid_batch = False
        """Some listeners have been given a batch, and others not yet."""

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
            while self.applied.offset < high_watermark:
                if self._steps is None:
                    self._steps = self._deliver(high_watermark, now_ms)
                for records in self._steps:
                    count += records
                    if count >= max_records:
                        return self.applied.offset >= high_watermark
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
            if run.records:
                for listener in self.listeners:
                    listener.handle_commit(run.base_offset, run.epoch, run.records)
                    if len(run.records) >= LONG_BATCH:
                        self.amid_batch = True
                        yield len(run.records)
        self.applied = SnapshotId(batch.end_offset, batch.epoch)
        self.amid_batch = False
        if batch.records:
            self._policy.committed(batch.size, now_ms)
        # One for the batch itself: control batches have no records here.
        yield 1 + len(batch.records)

    def load_snapshot(self, id: SnapshotId, records: Sequence[Message]) -> None:
        for listener in self.listeners:
            listener.handle_snapshot(id.offset, id.epoch, records)
        self.applied = id
        self._steps, self.amid_batch = None, False
        self._transactions = TransactionFilter()
        self._recent.clear()

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        for listener in self.listeners:
            listener.handle_leader_change(leader_id, epoch)


def _nothing_to_read(from_offset: int, to_offset: int) -> Iterator[AppendedBatch | None]:
    raise AssertionError("the log is open before anything is delivered")
