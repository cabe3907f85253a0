"""Brokers: describe the cluster, what the client may do with it, unregister a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.metadata import Node
from ruslo.model.acls import Operation
from ruslo.net.channel import check_code
from ruslo.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ruslo.protocol.messages.describe_cluster_response import DescribeClusterResponse
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ruslo.protocol.messages.unregister_broker_response import UnregisterBrokerResponse

_FENCED_BROKERS_VERSION = 2
"""The first version of DescribeCluster that can include fenced brokers (KIP-1073)."""


class Broker(NamedTuple):
    node: Node
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]


class Brokers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe_cluster(self) -> ClusterDescription:
        async def attempt() -> ClusterDescription:
            connection = await self._cluster.any_connection()
            fenced = connection.version_for(DescribeClusterRequest) >= _FENCED_BROKERS_VERSION
            request = DescribeClusterRequest(include_fenced_brokers=fenced)
            response = await connection.request(request, DescribeClusterResponse)
            check_code(response.error_code, response.error_message)
            brokers = [
                Broker(Node(broker.broker_id, broker.host, broker.port, broker.rack), broker.is_fenced)
                for broker in sorted(response.brokers, key=lambda broker: broker.broker_id)
            ]
            return ClusterDescription(response.cluster_id, response.controller_id, tuple(brokers))

        return await self._cluster.retrying(attempt)

    async def authorized_operations(self) -> frozenset[Operation]:
        """The operations on the cluster that this client may perform (KIP-430); all without an authorizer."""

        async def attempt() -> frozenset[Operation]:
            request = DescribeClusterRequest(include_cluster_authorized_operations=True)
            response = await self._cluster.any_broker(request, DescribeClusterResponse)
            check_code(response.error_code, response.error_message)
            bits = response.cluster_authorized_operations
            # The negative number that stands for "not requested" sets no bit of an operation.
            return frozenset(each for each in Operation if each > Operation.ANY and bits >> each & 1)

        return await self._cluster.retrying(attempt)

    async def unregister(self, node_id: int) -> None:
        """Remove the registration of a broker that will not come back."""

        async def attempt() -> None:
            response = await self._cluster.controller(
                UnregisterBrokerRequest(broker_id=node_id), UnregisterBrokerResponse
            )
            check_code(response.error_code, response.error_message or f"broker {node_id}")

        await self._cluster.retrying(attempt)
