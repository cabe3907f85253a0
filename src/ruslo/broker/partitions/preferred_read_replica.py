"""The preferred read replica of a consumer: an in-sync follower in its own rack (KIP-392)."""

from __future__ import annotations

from dataclasses import dataclass

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.partition import Partition

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NO_PREFERRED_REPLICA = -1


@dataclass(frozen=True, slots=True)
class ReplicaSelector:
    metadata: MetadataLoader
    node_id: int
    rack_aware: bool
    """False: every consumer reads from the leader."""

    def preferred_read_replica(self, partition: Partition, offset: int, rack: str) -> int:
        """The most advanced in-sync follower in the consumer's rack that has the offset; -1: the leader."""
        leader = partition.leader
        if not self.rack_aware or not rack or leader is None or leader.replication is None:
            return NO_PREFERRED_REPLICA
        brokers = self.metadata.image.cluster.brokers
        own = brokers.get(self.node_id)
        if own is not None and own.rack == rack:
            return NO_PREFERRED_REPLICA
        candidates = [
            follower
            for follower in leader.replication.followers.values()
            if follower.broker_id in leader.isr
            and follower.log_start_offset <= offset <= follower.end_offset
            and (broker := brokers.get(follower.broker_id)) is not None
            and broker.active
            and broker.rack == rack
        ]
        if not candidates:
            return NO_PREFERRED_REPLICA
        return max(candidates, key=lambda follower: follower.end_offset).broker_id
