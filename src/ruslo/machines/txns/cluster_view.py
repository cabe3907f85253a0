"""The part of the cluster's metadata that a transaction coordinator uses."""

from __future__ import annotations

from typing import Protocol

NO_LEADER = -1


class ClusterView(Protocol):
    """It does not change while an event is handled."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The leader of the partition, or NO_LEADER; None: the partition does not exist."""
        ...

    def offsets_partition_of(self, group_id: str) -> int | None:
        """The partition of ``__consumer_offsets`` that stores the group; None: the topic does not exist."""
        ...


class NoCluster:
    """The view before the first metadata: no partition is known to be deleted, so all markers wait."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        return NO_LEADER

    def offsets_partition_of(self, group_id: str) -> int | None:
        return None
