"""The leader epoch cache: the start offset of each leader epoch, to find where replicas diverge (KIP-101).

Epochs and start offsets both ascend. The leader epoch checkpoint is written when the log is flushed or
closed, not with each change: recovery finds newer epochs in the batches that it reads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ruslo.storage.checkpoints import format_epochs

NO_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEnd(NamedTuple):
    """The end of a leader epoch: an epoch of this log, and the first offset after it."""

    epoch: int
    end_offset: int


class LeaderEpochCache:
    __slots__ = ("_epochs", "_starts", "dirty", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = NO_EPOCH
        """The latest epoch, -1 in an empty cache; read by every append."""
        for epoch, start in entries:
            self.assign(epoch, start)
        self.dirty = False
        """Whether the checkpoint file is out of date."""

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def latest_start(self) -> int:
        """The start offset of the latest epoch, 0 in an empty cache."""
        return self._starts[-1] if self._starts else 0

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add an epoch that starts at ``start_offset`` and remove the entries that contradict it."""
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and starts[-1] <= start_offset:
            return
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self._changed()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.dirty = True

    def epoch_at(self, offset: int) -> int:
        """The epoch in which ``offset`` was written, -1 if it is below the first entry."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else NO_EPOCH

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last record below ``offset``; later epochs may start there without a record."""
        starts = self._starts
        at = len(starts) - 1
        while at >= 0 and starts[at] >= offset:
            at -= 1
        return self._epochs[at] if at >= 0 else NO_EPOCH

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """OffsetsForLeaderEpoch: the largest known epoch ≤ ``epoch``, and its end offset."""
        epochs = self._epochs
        if not epochs or epoch < 0 or epoch > epochs[-1]:
            return EpochEnd(NO_EPOCH, UNDEFINED_OFFSET)
        if epoch == epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        at = bisect_right(epochs, epoch)
        if at == 0:
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(epochs[at - 1], self._starts[at])

    def note_batch(self, epoch: int, base_offset: int) -> None:
        """Correct the cache by a batch of the log, and remove the entries that contradict it.

        The checkpoint file may be older than the log. It may have an epoch in which this replica led without
        appending, although the log got records of an earlier epoch at that offset later.
        """
        if epoch > self.latest:
            self.assign(epoch, base_offset)
        elif epoch < self.epoch_at(base_offset):
            kept = bisect_right(self._epochs, epoch)
            del self._epochs[kept:]
            del self._starts[kept:]
            self._changed()

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at or past the log end offset."""
        starts = self._starts
        if starts and starts[-1] >= end_offset:
            while starts and starts[-1] >= end_offset:
                starts.pop()
                self._epochs.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs below the log start offset; the one that has this offset starts there now."""
        at = bisect_right(self._starts, start_offset) - 1
        if at > 0 or (at == 0 and self._starts[0] < start_offset):
            del self._epochs[:at]
            del self._starts[:at]
            self._starts[0] = start_offset
            self._changed()

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self._changed()

    def to_bytes(self) -> bytes:
        return format_epochs(zip(self._epochs, self._starts, strict=True))
