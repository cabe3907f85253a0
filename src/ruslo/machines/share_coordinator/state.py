"""The share-partitions of one partition of ``__share_group_state``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.machines.share_coordinator.records import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_COUNT,
    ShareKey,
    ShareSnapshot,
    ShareUpdate,
)
from ruslo.machines.share_coordinator.state_batches import combine
from ruslo.model.ids import Uuid

PartitionExists: TypeAlias = Callable[[Uuid, int | None], bool]
"""Whether the metadata has a topic id, and in it this partition if one is given."""


@dataclass(frozen=True, slots=True)
class ShareCoordinatorSettings:
    updates_per_snapshot: int = 500
    """After as many updates of a share-partition, a snapshot is written."""
    prune_interval_ms: int = 300_000
    """How often records that no state needs are deleted."""
    cold_interval_ms: int = 300_000
    """The age at which a snapshot is written again, so that the log before it can be deleted."""


@dataclass(slots=True, eq=False)
class ShareState:
    """The state of one share-partition: a snapshot, and the updates after it."""

    snapshot: ShareSnapshot
    offset: int
    """The offset of the snapshot; the log may be pruned before the lowest one."""
    updates: int = 0

    def replay_snapshot(self, snapshot: ShareSnapshot, offset: int) -> None:
        # Epochs never decrease: an initialization does not know the leader epoch.
        self.snapshot = ShareSnapshot(
            snapshot.snapshot_epoch,
            max(snapshot.state_epoch, self.snapshot.state_epoch),
            max(snapshot.leader_epoch, self.snapshot.leader_epoch),
            snapshot.start_offset,
            snapshot.delivery_complete_count,
            snapshot.create_ms,
            snapshot.write_ms,
            snapshot.batches,
        )
        self.offset, self.updates = offset, 0

    def replay_update(self, update: ShareUpdate) -> None:
        self.snapshot = self.updated(update)
        self.updates += 1

    def updated(self, update: ShareUpdate) -> ShareSnapshot:
        now = self.snapshot
        start_offset = (
            now.start_offset if update.start_offset == UNINITIALIZED_START_OFFSET else update.start_offset
        )
        return ShareSnapshot(
            now.snapshot_epoch,
            now.state_epoch,
            max(now.leader_epoch, update.leader_epoch),
            start_offset,
            now.delivery_complete_count
            if update.delivery_complete_count == UNKNOWN_COUNT
            else update.delivery_complete_count,
            now.create_ms,
            now.write_ms,
            combine(now.batches, update.batches, start_offset),
        )


@dataclass(slots=True, eq=False)
class CoordinatorState:
    settings: ShareCoordinatorSettings
    partition_exists: PartitionExists
    active: bool = False
    shares: dict[ShareKey, ShareState] = field(default_factory=dict)
    next_offset: int = 0
    """The offset after the last replayed record."""
    hot_records: int = 0
    """Records since the last round of cold snapshots, without those of the round itself."""
    pruned_before: int = 0
    to_delete: deque[ShareKey] = field(default_factory=deque)
    """States of deleted topics."""
    cold: deque[ShareKey] = field(default_factory=deque)
    """States to write again in the current round."""
