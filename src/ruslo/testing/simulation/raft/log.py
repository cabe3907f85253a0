"""A replica's log and quorum state in memory, and what of it survives a power failure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from random import Random

from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.quorum_state import QuorumState
from ruslo.machines.raft.snapshots import SnapshotId


@dataclass(frozen=True, slots=True)
class SimBatch:
    base_offset: int
    end_offset: int
    epoch: int
    value: int = -1
    """The value that a client appended; -1 in a control batch."""
    control: tuple[QuorumRecord, ...] = ()

    def __repr__(self) -> str:
        what = "".join(type(record).__name__[0] for record in self.control) or str(self.value)
        return f"{self.base_offset}@{self.epoch}:{what}"


@dataclass(slots=True)
class SimSnapshot:
    id: SnapshotId
    control: tuple[QuorumRecord, ...]


class SimRaftLog:
    def __init__(self) -> None:
        self.batches: list[SimBatch] = []
        self.snapshot: SimSnapshot | None = None
        self.start_offset = 0
        self.quorum = QuorumState()
        self._durable: list[SimBatch] = []
        self._durable_quorum = QuorumState()

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start_offset

    def append(self, batch: SimBatch) -> None:
        assert batch.base_offset == self.end_offset, f"{batch} does not follow offset {self.end_offset}"
        self.batches.append(batch)

    def truncate(self, offset: int) -> int:
        while self.batches and self.batches[-1].end_offset > offset:
            self.batches.pop()
        return self.end_offset

    def batches_from(self, offset: int, count: int) -> list[SimBatch]:
        first = self._index(offset)
        return self.batches[first : first + count]

    def batches_before(self, offset: int) -> list[SimBatch]:
        return self.batches[: self._index(offset)]

    def sync(self) -> None:
        self._durable = list(self.batches)

    def store_quorum(self, quorum: QuorumState, *, sync: bool = True) -> None:
        self.quorum = quorum
        if sync:
            self._durable_quorum = quorum

    def take_snapshot(self, snapshot: SimSnapshot, start_offset: int) -> None:
        """A snapshot is durable at once: it is synced before it counts."""
        self.snapshot = snapshot
        self.start_offset = start_offset
        self.batches = [batch for batch in self.batches if batch.base_offset >= start_offset]
        self._durable = [batch for batch in self._durable if batch.base_offset >= start_offset]

    def replace_by(self, snapshot: SimSnapshot) -> None:
        self.batches.clear()
        self._durable.clear()
        self.snapshot = snapshot
        self.start_offset = snapshot.id.offset

    def lose_power(self, random: Random) -> None:
        """Unsynced batches may be lost or survive, but without a gap."""
        self.quorum = self._durable_quorum
        common = 0
        for kept, written in zip(self._durable, self.batches, strict=False):
            if kept != written:
                break
            common += 1
        if common < len(self._durable) and random.random() < 0.5:
            self.batches = list(self._durable)
        elif common == len(self._durable):
            self.batches = self.batches[: random.randint(common, len(self.batches))]
        self._durable = list(self.batches)

    def view(self) -> LogView:
        """The view that the machine starts with, everything replayed."""
        epochs: list[tuple[int, int]] = []
        for batch in self.batches:
            if not epochs or batch.epoch > epochs[-1][0]:
                epochs.append((batch.epoch, batch.base_offset))
        view = LogView(
            end_offset=self.end_offset,
            epochs=epochs,
            start_offset=self.start_offset,
            # The snapshot at offset 0 is written by format and contains nothing of the log.
            snapshot=self.snapshot.id if self.snapshot is not None and self.snapshot.id.offset else None,
        )
        if self.snapshot is not None:
            for record in self.snapshot.control:
                view.replay(record, self.snapshot.id.offset - 1)
        for batch in self.batches:
            if self.snapshot is None or batch.base_offset >= self.snapshot.id.offset:
                for offset, record in enumerate(batch.control, batch.base_offset):
                    view.replay(record, offset)
        return view

    def _index(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=lambda batch: batch.end_offset)
