"""Offsets of partitions: earliest, latest, by timestamp (ListOffsets)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ruslo.client.wire.by_topic import by_topic
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import result_of
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse

_TIMEOUT_MS = 30_000


class Spec(enum.IntEnum):
    """Special timestamps of ListOffsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class ListedOffset(NamedTuple):
    offset: int
    """-1 when every record is older than the timestamp."""
    timestamp_ms: int
    leader_epoch: int


class Offsets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset for a ``Spec``, or of the first record at or after a timestamp in ms, per partition."""

        async def query(
            node: int, owned: Sequence[TopicPartition]
        ) -> dict[TopicPartition, ListedOffset | KafkaError]:
            topics = by_topic(
                (tp, ListOffsetsPartition(partition_index=tp.partition, timestamp=wanted[tp])) for tp in owned
            )
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(read_committed),
                topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=_TIMEOUT_MS,
            )
            response = await self._cluster.node(node, request, ListOffsetsResponse)
            return {
                (tp := TopicPartition(topic.name, part.partition_index)): result_of(
                    part.error_code, str(tp), ListedOffset(part.offset, part.timestamp, part.leader_epoch)
                )
                for topic in response.topics
                for part in topic.partitions
            }

        return await self._cluster.each_leader(list(wanted), query)

    async def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The log start offset and the end offset (that of the next record), per partition."""
        wanted = list(partitions)
        earliest = await self.find(dict.fromkeys(wanted, Spec.EARLIEST))
        latest = await self.find(dict.fromkeys(wanted, Spec.LATEST))
        return {partition: (earliest[partition].offset, latest[partition].offset) for partition in wanted}
