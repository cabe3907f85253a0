"""Leader hints in responses: the leader of a partition that another broker leads, and its endpoint
(KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ruslo.model.errors import ErrorCode
from ruslo.protocol.leader_hints import LeaderAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from ruslo.broker.metadata.loader import MetadataLoader
    from ruslo.broker.partitions.partition import Partition

_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def leader_hint(partition: Partition | None, error: int) -> LeaderAndEpoch | None:
    """The current leader, if the error tells a client to find it."""
    if partition is None or partition.leader_id < 0 or error not in _WRONG_LEADER:
        return None
    return partition.leader_id, partition.leader_epoch


class BrokerEndpoints:
    def __init__(self, metadata: MetadataLoader) -> None:
        self._metadata = metadata

    def of(self, broker_ids: Iterable[int], listener_name: str) -> list[NodeEndpoint]:
        """The endpoints of the brokers that have the listener of the client's connection."""
        found: list[NodeEndpoint] = []
        for broker_id in broker_ids:
            broker = self._metadata.image.cluster.brokers.get(broker_id)
            endpoint = None if broker is None else broker.endpoint(listener_name)
            if broker is not None and endpoint is not None:
                found.append((broker_id, endpoint.host, endpoint.port, broker.rack))
        return found
