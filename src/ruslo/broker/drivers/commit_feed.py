"""Hands committed records to those who listen, in order, transactions whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ruslo.broker.drivers.metadata_log import MetadataLogListener
from ruslo.broker.drivers.metadata_transactions import TransactionFilter
from ruslo.machines.raft.snapshots import SnapshotId, SnapshotPolicy
from ruslo.protocol.message import Message


class AppendedBatch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    size: int
    records: Sequence[Message]
    """Empty for a control batch, which is the quorum's own affair."""


class CommitFeed:
    def __init__(self, policy: SnapshotPolicy) -> None:
        self.listeners: list[MetadataLogListener] = []
        self.applied = SnapshotId(0, 0)
        """The end of what the listeners have been given; always between two batches."""
        self._policy = policy
        self._transactions = TransactionFilter()
        self._pending: deque[AppendedBatch] = deque()
        self._held = False
        self._delivering = False

    @property
    def in_transaction(self) -> bool:
        return self._transactions.is_open

    def appended(self, batch: AppendedBatch) -> None:
        self._pending.append(batch)

    def hold(self) -> None:
        """Deliver nothing until ``release``: someone reads the listeners' state over several turns."""
        self._held = True

    def release(self) -> None:
        self._held = False

    def deliver(self, high_watermark: int, now_ms: int) -> None:
        """Hand out what has committed. A listener may append from within its call."""
        if self._delivering:
            return  # A listener's append led here; the outer call goes on with it.
        self._delivering = True
        try:
            while self._pending and not self._held and self._pending[0].end_offset <= high_watermark:
                self.apply(self._pending.popleft(), now_ms)
        finally:
            self._delivering = False

    def apply(self, batch: AppendedBatch, now_ms: int) -> None:
        for run in self._transactions.feed(batch.base_offset, batch.epoch, batch.records):
            if run.records:
                for listener in self.listeners:
                    listener.handle_commit(run.base_offset, run.epoch, run.records)
        self.applied = SnapshotId(batch.end_offset, batch.epoch)
        if batch.records:
            self._policy.committed(batch.size, now_ms)

    def load_snapshot(self, id: SnapshotId, records: Sequence[Message]) -> None:
        for listener in self.listeners:
            listener.handle_snapshot(id.offset, id.epoch, records)
        self.applied = id

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        for listener in self.listeners:
            listener.handle_leader_change(leader_id, epoch)
