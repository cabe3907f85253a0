"""Leader hints in responses: the leader of a partition that another broker leads, and its endpoint
(KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.partition import Partition
from ruslo.model.errors import ErrorCode
from ruslo.protocol.leader_hints import LeaderAndEpoch, NodeEndpoint

_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def leader_hint(partition: Partition | None, error: int) -> LeaderAndEpoch | None:
    """The current leader, if the error tells a client to find it."""
    if partition is None or partition.leader_id < 0 or error not in _WRONG_LEADER:
        return None
    return partition.leader_id, partition.leader_epoch


def broker_endpoints(
    metadata: MetadataLoader, broker_ids: Iterable[int], listener_name: str
) -> list[NodeEndpoint]:
    """The endpoints of the brokers that have the listener of the client's connection."""
    brokers = metadata.image.cluster.brokers
    return [
        (broker_id, endpoint.host, endpoint.port, broker.rack)
        for broker_id in broker_ids
        if (broker := brokers.get(broker_id)) is not None
        and (endpoint := broker.endpoint(listener_name)) is not None
    ]
