"""Replicas that move to other brokers (KIP-455): start, watch and cancel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import check_code, error_of
from ruslo.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ruslo.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from ruslo.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ruslo.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

_TIMEOUT_MS = 30_000


class OngoingReassignment(NamedTuple):
    replicas: tuple[int, ...]
    """All that hold the partition on the way, old and new."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class Reassignments:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Start moves to these replicas, or with None go back; by partition None, or why it was refused."""
        by_topic: dict[str, list[ReassignablePartition]] = {}
        for partition, replicas in targets.items():
            by_topic.setdefault(partition.topic, []).append(
                ReassignablePartition(
                    partition_index=partition.partition,
                    replicas=None if replicas is None else list(replicas),
                )
            )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS,
            topics=[ReassignableTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
        )

        async def attempt() -> dict[TopicPartition, KafkaError | None]:
            response = await self._cluster.controller(request, AlterPartitionReassignmentsResponse)
            check_code(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, part.partition_index): (
                    error_of(part.error_code, part.error_message) if part.error_code else None
                )
                for topic in response.responses
                for part in topic.partitions
            }

        return await self._cluster.retrying(attempt)

    async def ongoing(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingReassignment]:
        """Of all partitions, or of these."""
        topics: list[ListPartitionReassignmentsTopics] | None = None
        if partitions is not None:
            by_topic: dict[str, list[int]] = {}
            for partition in partitions:
                by_topic.setdefault(partition.topic, []).append(partition.partition)
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in by_topic.items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=topics)

        async def attempt() -> dict[TopicPartition, OngoingReassignment]:
            response = await self._cluster.controller(request, ListPartitionReassignmentsResponse)
            check_code(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, part.partition_index): OngoingReassignment(
                    tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
                )
                for topic in sorted(response.topics, key=lambda topic: topic.name)
                for part in sorted(topic.partitions, key=lambda part: part.partition_index)
            }

        return await self._cluster.retrying(attempt)
