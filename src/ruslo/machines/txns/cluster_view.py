"""What a transaction coordinator needs to know of the cluster, whoever holds the metadata."""

from __future__ import annotations

from typing import Protocol

NO_LEADER = -1


class ClusterView(Protocol):
    """A view of one moment: it does not change under a reader, a newer one replaces it."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The node that leads it, NO_LEADER if none does for now; None: there is no such partition."""
        ...

    def offsets_partition_of(self, group_id: str) -> int | None:
        """The partition of ``__consumer_offsets`` that keeps the group; None: the topic is not there yet."""
        ...


class NoCluster:
    """Before the first metadata: nothing can be said to be gone, so everything has to wait."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        return NO_LEADER

    def offsets_partition_of(self, group_id: str) -> int | None:
        return None
