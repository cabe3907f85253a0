"""Partition reassignments (KIP-455): start, list and cancel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ruslo.client.wire.by_topic import by_topic, indexes_by_topic
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import check_code, result_of
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
    """The old and new replicas, which all host the partition during the reassignment."""
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
        """Reassign to the given replicas; None cancels. Returns None or the error by partition."""
        topics = by_topic(
            (
                tp,
                ReassignablePartition(
                    partition_index=tp.partition, replicas=None if replicas is None else list(replicas)
                ),
            )
            for tp, replicas in targets.items()
        )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS,
            topics=[ReassignableTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )

        async def attempt() -> dict[TopicPartition, KafkaError | None]:
            response = await self._cluster.controller(request, AlterPartitionReassignmentsResponse)
            check_code(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, part.partition_index): result_of(
                    part.error_code, part.error_message, None
                )
                for topic in response.responses
                for part in topic.partitions
            }

        return await self._cluster.retrying(attempt)

    async def ongoing(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingReassignment]:
        """The reassignments in progress, of the given partitions or of all."""
        topics: list[ListPartitionReassignmentsTopics] | None = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in indexes_by_topic(partitions).items()
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
