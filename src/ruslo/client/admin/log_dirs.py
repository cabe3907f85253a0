"""Log directories: sizes, errors, and how far their recovery after a crash is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.settings.bootstrap_servers import Address
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.metadata import Node
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import Channel, ChannelSettings, check_code, error_of, result_of
from ruslo.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ruslo.protocol.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from ruslo.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ruslo.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from ruslo.protocol.recovery_tag import VERSION, Recovery

_RECOVERY_SETTINGS = ChannelSettings(connect_timeout_ms=3_000, request_timeout_ms=3_000)


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
    cordoned: bool = False
    """Whether the directory receives no new replicas (KIP-1066)."""
    recovery: Recovery | None = None
    """The progress of log recovery while the broker starts after a crash, else None."""


class LogDirs:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, node_id: int) -> list[LogDirectory]:
        async def attempt() -> list[LogDirectory]:
            response = await self._cluster.node(
                node_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
            check_code(response.error_code, f"broker {node_id} does not describe its log directories")
            return [_log_directory(node_id, result) for result in response.results]

        return await self._cluster.retrying(attempt)

    async def alter(
        self, node_id: int, directories: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move replicas to other log directories of their broker. Returns None or the error by partition."""
        by_path: dict[str, dict[str, list[int]]] = {}
        for (topic, index), path in directories.items():
            by_path.setdefault(path, {}).setdefault(topic, []).append(index)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=indexes)
                        for name, indexes in topics.items()
                    ],
                )
                for path, topics in by_path.items()
            ]
        )

        async def attempt() -> dict[TopicPartition, KafkaError | None]:
            response = await self._cluster.node(node_id, request, AlterReplicaLogDirsResponse)
            return {
                TopicPartition(topic.topic_name, part.partition_index): result_of(part.error_code, None, None)
                for topic in response.results
                for part in topic.partitions
            }

        return await self._cluster.retrying(attempt)

    async def recovering(self, node: Node) -> list[LogDirectory]:
        """The directories of a broker that is still starting; empty if it has started or is unreachable."""
        found = await recovery_at(Address(node.host, node.port))
        return [LogDirectory(node.id, path, None, -1, -1, (), recovery=each) for path, each in found.items()]


async def recovery_at(address: Address) -> dict[str, Recovery]:
    """The recovery progress by log directory; empty if the broker there has started or is unreachable."""
    try:
        connection = await Channel.open_with_versions(
            *address, {DescribeLogDirsRequest.API_KEY: VERSION}, _RECOVERY_SETTINGS
        )
        try:
            # An empty list of topics keeps the response small if the broker has started.
            response = await connection.request(DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse)
        finally:
            await connection.close()
    except KafkaError:
        return {}
    found = {result.log_dir: Recovery.from_tags(result.unknown_tags) for result in response.results}
    return {path: recovery for path, recovery in found.items() if recovery is not None}


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
        node_id,
        result.log_dir,
        error,
        result.total_bytes,
        result.usable_bytes,
        tuple(replicas),
        result.is_cordoned,
    )
