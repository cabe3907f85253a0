"""Leaders on demand (KIP-460)."""

from __future__ import annotations

import enum
from collections.abc import Collection

from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import check_code, error_of
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ruslo.protocol.messages.elect_leaders_response import ElectLeadersResponse

_TIMEOUT_MS = 30_000


class ElectionType(enum.IntEnum):
    PREFERRED = 0
    """The first replica of each partition."""
    UNCLEAN = 1
    """Anybody alive for partitions without a leader, even if records are lost."""


class LeaderElections:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def elect(
        self, election: ElectionType, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """By partition None, or why nobody was elected.

        Of all partitions (None), those that need no election are left out; of named ones they are answered
        with ELECTION_NOT_NEEDED.
        """
        topics: list[TopicPartitions] | None = None
        if partitions is not None:
            by_topic: dict[str, list[int]] = {}
            for partition in partitions:
                by_topic.setdefault(partition.topic, []).append(partition.partition)
            topics = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in by_topic.items()]
        request = ElectLeadersRequest(election_type=election, topic_partitions=topics, timeout_ms=_TIMEOUT_MS)

        async def attempt() -> dict[TopicPartition, KafkaError | None]:
            response = await self._cluster.controller(
                request, ElectLeadersResponse, min_version=0 if election is ElectionType.PREFERRED else 1
            )
            check_code(response.error_code, "the election was refused")
            return {
                TopicPartition(topic.topic, part.partition_id): (
                    error_of(part.error_code, part.error_message) if part.error_code else None
                )
                for topic in sorted(response.replica_election_results, key=lambda topic: topic.topic)
                for part in sorted(topic.partition_result, key=lambda part: part.partition_id)
            }

        return await self._cluster.retrying(attempt)
