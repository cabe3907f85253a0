"""The nodes of a cluster, the quorum of its controllers, its features, and the brokers' log directories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.wire.bootstrap import Address
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.metadata import Node
from ruslo.client.wire.starting import recovery_at
from ruslo.model.errors import KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import METADATA_TOPIC, TopicPartition
from ruslo.net.channel import check_code, error_of
from ruslo.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ruslo.protocol.messages.describe_cluster_response import DescribeClusterResponse
from ruslo.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ruslo.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from ruslo.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ruslo.protocol.messages.describe_quorum_response import DescribeQuorumResponse, ReplicaState
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ruslo.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from ruslo.protocol.recovery_tag import Recovery


class Broker(NamedTuple):
    node: Node
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]


class QuorumReplica(NamedTuple):
    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


class VoterEndpoint(NamedTuple):
    listener_name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Quorum:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: dict[int, tuple[VoterEndpoint, ...]]
    """Where each voter listens; empty where the cluster is too old to say (before KIP-853)."""


class Feature(NamedTuple):
    name: str
    finalized: int
    """The level in force; 0 when the feature is off."""
    supported_min: int
    supported_max: int


class ReplicaSize(NamedTuple):
    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    node_id: int
    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    replicas: tuple[ReplicaSize, ...]
    recovery: Recovery | None = None
    """How far its recovery is, while its broker starts after a crash."""


class Brokers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe_cluster(self) -> ClusterDescription:
        async def attempt() -> ClusterDescription:
            # Version 2 and later can show fenced brokers; whoever asks wants to see those most of all.
            connection = await self._cluster.any_connection()
            fenced = connection.version_for(DescribeClusterRequest) >= 2
            request = DescribeClusterRequest(include_fenced_brokers=fenced)
            response = await connection.request(request, DescribeClusterResponse)
            check_code(response.error_code, response.error_message)
            brokers = [
                Broker(Node(broker.broker_id, broker.host, broker.port, broker.rack), broker.is_fenced)
                for broker in sorted(response.brokers, key=lambda broker: broker.broker_id)
            ]
            return ClusterDescription(response.cluster_id, response.controller_id, tuple(brokers))

        return await self._cluster.retrying(attempt)

    async def describe_quorum(self) -> Quorum:
        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
        )

        async def attempt() -> Quorum:
            response = await self._cluster.controller(request, DescribeQuorumResponse)
            check_code(response.error_code, response.error_message)
            partition = response.topics[0].partitions[0]
            check_code(partition.error_code, partition.error_message)
            return Quorum(
                partition.leader_id,
                partition.leader_epoch,
                partition.high_watermark,
                tuple(_replica(state) for state in partition.current_voters),
                tuple(_replica(state) for state in partition.observers),
                {
                    node.node_id: tuple(
                        VoterEndpoint(each.name, each.host, each.port) for each in node.listeners
                    )
                    for node in response.nodes
                },
            )

        return await self._cluster.retrying(attempt)

    async def unregister(self, node_id: int) -> None:
        """Have the cluster forget a broker that will not come back."""

        async def attempt() -> None:
            response = await self._cluster.controller(
                UnregisterBrokerRequest(broker_id=node_id), UnregisterBrokerResponse
            )
            check_code(response.error_code, response.error_message or f"broker {node_id}")

        await self._cluster.retrying(attempt)

    async def features(self) -> list[Feature]:
        """What the cluster agreed on; ApiVersions told it when the connection was made."""
        connection = await self._cluster.any_connection()
        answer = connection.api_versions
        assert answer is not None, "an open connection has negotiated"
        finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        return [
            Feature(feature.name, finalized.get(feature.name, 0), feature.min_version, feature.max_version)
            for feature in sorted(answer.supported_features, key=lambda feature: feature.name)
        ]

    async def log_dirs(self, node_id: int) -> list[LogDirectory]:
        async def attempt() -> list[LogDirectory]:
            response = await self._cluster.node(
                node_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
            check_code(response.error_code, f"broker {node_id} does not show its log directories")
            return [_log_directory(node_id, result) for result in response.results]

        return await self._cluster.retrying(attempt)

    async def recovering_log_dirs(self, node: Node) -> list[LogDirectory]:
        """Those of a broker that is still starting; none if it is not, or cannot be reached."""
        found = await recovery_at(Address(node.host, node.port))
        return [LogDirectory(node.id, path, None, -1, -1, (), each) for path, each in found.items()]


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def _log_directory(node_id: int, result: DescribeLogDirsResult) -> LogDirectory:
    replicas = sorted(
        ReplicaSize(
            TopicPartition(topic.name, part.partition_index),
            part.partition_size,
            part.offset_lag,
            part.is_future_key,
        )
        for topic in result.topics
        for part in topic.partitions
    )
    error = error_of(result.error_code, result.log_dir) if result.error_code else None
    return LogDirectory(
        node_id, result.log_dir, error, result.total_bytes, result.usable_bytes, tuple(replicas)
    )
