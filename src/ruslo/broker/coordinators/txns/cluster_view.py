"""The leaders of partitions, from this broker's metadata image."""

from __future__ import annotations

from collections.abc import Callable

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.machines.txns.cluster_view import NO_LEADER


class ImageClusterView:
    """Implements the machine's ``ClusterView`` on the live image.

    The image changes only between two events of a shard, and ``ClusterChanged`` is the next event then.
    """

    def __init__(self, metadata: MetadataLoader, offsets_partition_of: Callable[[str], int]) -> None:
        self._metadata = metadata
        self._offsets_partition_of = offsets_partition_of

    def leader_of(self, topic: str, partition: int) -> int | None:
        found = self._metadata.image.topics.by_name.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        leader = found.partitions[partition].leader
        return leader if leader >= 0 else NO_LEADER

    def offsets_partition_of(self, group_id: str) -> int | None:
        return self._offsets_partition_of(group_id)
