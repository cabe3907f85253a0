"""When to take a snapshot of the metadata, and which snapshots and which part of the log to keep (KIP-630).

Every node takes its own snapshots of what is committed. The start of the log moves only to a snapshot, and
never to the newest: a replica that is slightly behind can still be served from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SnapshotId(NamedTuple):
    """Sorted from oldest to newest."""

    offset: int
    """The first offset that the snapshot does not contain."""
    epoch: int
    """The epoch of the last record in the snapshot."""


NO_SNAPSHOT = SnapshotId(0, 0)


class StoredSnapshot(NamedTuple):
    id: SnapshotId
    size: int
    last_timestamp_ms: int
    """The timestamp of the last record in the snapshot."""


class SnapshotPolicy:
    """A snapshot is due after ``max_bytes`` of committed records, or ``max_interval_ms`` after the first of
    them."""

    def __init__(self, *, max_bytes: int, max_interval_ms: int) -> None:
        """``max_interval_ms`` 0: no limit by time."""
        self._max_bytes = max_bytes
        self._max_interval_ms = max_interval_ms
        self._bytes = 0
        self._since_ms: int | None = None

    def committed(self, size: int, now_ms: int) -> None:
        self._bytes += size
        if self._since_ms is None:
            self._since_ms = now_ms

    def taken(self) -> None:
        """A snapshot of everything committed so far has been started."""
        self._bytes = 0
        self._since_ms = None

    def deadline_ms(self) -> int | None:
        """None while a snapshot would add nothing."""
        if self._since_ms is None or self._max_interval_ms == 0:
            return None
        return self._since_ms + self._max_interval_ms

    def is_due(self, now_ms: int) -> bool:
        deadline_ms = self.deadline_ms()
        return self._bytes >= self._max_bytes or (deadline_ms is not None and now_ms >= deadline_ms)


def next_truncation(
    snapshots: Sequence[StoredSnapshot],
    log_size: int,
    now_ms: int,
    *,
    max_retention_bytes: int,
    max_retention_ms: int,
) -> SnapshotId | None:
    """The snapshot to move the log start to, dropping the snapshot before it; None: keep everything.

    ``snapshots``: oldest first. A negative limit means no limit. Call again after each step, since it frees
    space.
    """
    if len(snapshots) < 2:
        return None
    oldest, successor = snapshots[0], snapshots[1]
    total = log_size + sum(snapshot.size for snapshot in snapshots)
    too_big = 0 <= max_retention_bytes < total
    too_old = 0 <= max_retention_ms < now_ms - oldest.last_timestamp_ms
    return successor.id if too_big or too_old else None
