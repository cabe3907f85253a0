"""Where else a client may turn: to the leader of a partition (KIP-951), or to a replica near it (KIP-392)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ruslo.model.errors import ErrorCode
from ruslo.protocol.leader_hints import LeaderAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from ruslo.broker.metadata.loader import MetadataDriver
    from ruslo.broker.partitions.partition import Partition

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NOBODY_ELSE = -1
_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def leader_hint(partition: Partition | None, error: int) -> LeaderAndEpoch | None:
    """Who leads instead, when that is why a client was refused."""
    if partition is None or partition.leader_id < 0 or error not in _WRONG_LEADER:
        return None
    return partition.leader_id, partition.leader_epoch


class Whereabouts:
    def __init__(self, metadata: MetadataDriver, *, node_id: int, rack_aware: bool) -> None:
        """``rack_aware``: readers may be sent to a follower in their own rack."""
        self._metadata = metadata
        self._node_id = node_id
        self._rack_aware = rack_aware

    def endpoints(self, broker_ids: Iterable[int], listener_name: str) -> list[NodeEndpoint]:
        """Of those that can be reached through the listener that the client uses."""
        found: list[NodeEndpoint] = []
        for broker_id in broker_ids:
            broker = self._metadata.image.cluster.brokers.get(broker_id)
            endpoint = None if broker is None else broker.endpoint(listener_name)
            if broker is not None and endpoint is not None:
                found.append((broker_id, endpoint.host, endpoint.port, broker.rack))
        return found

    def nearer_replica(self, partition: Partition, offset: int, rack: str) -> int:
        """The in-sync follower in the reader's rack that is furthest on and has the offset; -1: stay here."""
        replication = partition.replication
        if not self._rack_aware or not rack or replication is None:
            return NOBODY_ELSE
        brokers = self._metadata.image.cluster.brokers
        here = brokers.get(self._node_id)
        if here is not None and here.rack == rack:
            return NOBODY_ELSE
        near = [
            follower
            for follower in replication.machine.followers.values()
            if follower.broker_id in replication.isr
            and follower.log_start_offset <= offset <= follower.end_offset
            and (broker := brokers.get(follower.broker_id)) is not None
            and broker.active
            and broker.rack == rack
        ]
        if not near:
            return NOBODY_ELSE
        return max(near, key=lambda follower: follower.end_offset).broker_id
