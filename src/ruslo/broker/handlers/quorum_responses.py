"""What the responses of the quorum's APIs have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ruslo.broker.handlers.services import NodeServices
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import RaftResponse
from ruslo.model.topics import METADATA_TOPIC

EndpointT = TypeVar("EndpointT")


def foreign_cluster(services: NodeServices, cluster_id: str | None) -> bool:
    """Whether the sender belongs to another cluster; without a cluster id it may belong to any."""
    return cluster_id is not None and cluster_id != services.cluster_id


def is_metadata_log(topic_name: str, partition_index: int) -> bool:
    return topic_name == METADATA_TOPIC and partition_index == 0


def node_endpoints(result: RaftResponse, make: Callable[..., EndpointT]) -> list[EndpointT]:
    """The leader's endpoint in the API's own type."""
    at = result.endpoint
    if at is None or result.leader_id == NO_NODE:
        return []
    return [make(node_id=result.leader_id, host=at.host, port=at.port)]
