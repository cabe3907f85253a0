"""Leader elections on request (KIP-460)."""

from __future__ import annotations

import enum
from collections.abc import Collection

from ruslo.client.wire.by_topic import indexes_by_topic
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import check_code, result_of
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ruslo.protocol.messages.elect_leaders_response import ElectLeadersResponse

_TIMEOUT_MS = 30_000


class ElectionType(enum.IntEnum):
    PREFERRED = 0
    """Elect the preferred leader, which is the first replica."""
    UNCLEAN = 1
    """Elect any live replica of partitions without a leader, even if records are lost."""


class LeaderElections:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def elect(
        self, election: ElectionType, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Returns None, or the error, by partition.

        For all partitions (None), the result leaves out partitions that need no election; named partitions
        that need none have the error ELECTION_NOT_NEEDED.
        """
        topics: list[TopicPartitions] | None = None
        if partitions is not None:
            topics = [
                TopicPartitions(topic=name, partitions=indexes)
                for name, indexes in indexes_by_topic(partitions).items()
            ]
        request = ElectLeadersRequest(election_type=election, topic_partitions=topics, timeout_ms=_TIMEOUT_MS)

        async def attempt() -> dict[TopicPartition, KafkaError | None]:
            response = await self._cluster.controller(
                request, ElectLeadersResponse, min_version=0 if election is ElectionType.PREFERRED else 1
            )
            check_code(response.error_code, "the controller rejected the election")
            return {
                TopicPartition(topic.topic, part.partition_id): result_of(
                    part.error_code, part.error_message, None
                )
                for topic in sorted(response.replica_election_results, key=lambda topic: topic.topic)
                for part in sorted(topic.partition_result, key=lambda part: part.partition_id)
            }

        return await self._cluster.retrying(attempt)
