"""Offsets of share groups (KIP-932): list them with their lag, alter, delete.

All records before the start offset of a share-partition are delivered for good: accepted, rejected or
archived. The share coordinator stores it, with a delay, so a share group has no committed offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ruslo.client.admin.group_offsets import Outcomes, group_error
from ruslo.client.wire.by_topic import by_topic
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators, value_of
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import error_of
from ruslo.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ruslo.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ruslo.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ruslo.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from ruslo.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
)


class ShareOffset(NamedTuple):
    start_offset: int | None
    """None before the first fetch of the partition, which share.auto.offset.reset decides."""
    lag: int | None
    """The number of records that are not delivered for good; None if the brokers do not know it."""
    error: KafkaError | None


ShareOffsets: TypeAlias = dict[TopicPartition, ShareOffset]


class ShareGroupOffsets:
    def __init__(self, cluster: Cluster, coordinators: Coordinators) -> None:
        self._cluster = cluster
        self._coordinators = coordinators

    async def fetch(self, group_id: str) -> ShareOffsets:
        """The offsets of all partitions of a share group."""
        return value_of((await self.fetch_many([group_id]))[group_id])

    async def fetch_many(self, group_ids: Sequence[str]) -> dict[str, ShareOffsets | KafkaError]:
        async def query(node: int, owned: list[str]) -> dict[str, ShareOffsets | KafkaError]:
            request = DescribeShareGroupOffsetsRequest(
                groups=[DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in owned]
            )
            response = await self._cluster.node(node, request, DescribeShareGroupOffsetsResponse)
            return {group.group_id: _offsets(group) for group in response.groups}

        return await self._coordinators.each(list(dict.fromkeys(group_ids)), query)

    async def alter(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Outcomes:
        """Set start offsets, which the coordinator accepts only while the group has no members.

        The state of the records of these partitions is lost: all records from the offset on are available.
        """
        topics = by_topic(
            (tp, AlterShareGroupOffsetsRequestPartition(partition_index=tp.partition, start_offset=offset))
            for tp, offset in offsets.items()
        )
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=parts)
                for name, parts in topics.items()
            ],
        )

        async def query(node: int) -> Outcomes | KafkaError:
            response = await self._cluster.node(node, request, AlterShareGroupOffsetsResponse)
            if response.error_code:
                return group_error(group_id, response.error_code)
            return {
                (tp := TopicPartition(topic.topic_name, part.partition_index)): error_of(
                    part.error_code, part.error_message or str(tp)
                )
                if part.error_code
                else None
                for topic in response.responses
                for part in topic.partitions
            }

        return await self._coordinators.one(group_id, query)

    async def delete(self, group_id: str, topics: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete the offsets of topics while the group has no members; None, or the error, by topic."""
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in dict.fromkeys(topics)],
        )

        async def query(node: int) -> dict[str, KafkaError | None] | KafkaError:
            response = await self._cluster.node(node, request, DeleteShareGroupOffsetsResponse)
            if response.error_code:
                return group_error(group_id, response.error_code)
            return {
                topic.topic_name: error_of(topic.error_code, topic.error_message or topic.topic_name)
                if topic.error_code
                else None
                for topic in response.responses
            }

        return await self._coordinators.one(group_id, query)


def _offsets(group: DescribeShareGroupOffsetsResponseGroup) -> ShareOffsets | KafkaError:
    if group.error_code:
        fallback = f"offsets of share group {group.group_id!r} cannot be read"
        return error_of(group.error_code, group.error_message or fallback)
    return {
        TopicPartition(topic.topic_name, part.partition_index): _offset(part)
        for topic in sorted(group.topics, key=lambda topic: topic.topic_name)
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    }


def _offset(part: DescribeShareGroupOffsetsResponsePartition) -> ShareOffset:
    if part.error_code:
        return ShareOffset(None, None, error_of(part.error_code, part.error_message))
    return ShareOffset(
        part.start_offset if part.start_offset >= 0 else None, part.lag if part.lag >= 0 else None, None
    )
