"""Offsets that groups have committed: fetch, alter, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators, value_of
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import error_of
from ruslo.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ruslo.protocol.messages.offset_commit_response import OffsetCommitResponse
from ruslo.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ruslo.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ruslo.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

_REQUIRE_STABLE = 7
_MANY_GROUPS = 8
_TOPICS_BY_NAME = 9
"""From version 10 on topics are named by id, which hides commits to topics that were deleted since."""
_NOT_A_MEMBER = -1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


Committed: TypeAlias = dict[TopicPartition, CommittedOffset]
Outcomes: TypeAlias = dict[TopicPartition, KafkaError | None]
"""By partition None, or why nothing was changed."""


class GroupOffsets:
    def __init__(self, cluster: Cluster, coordinators: Coordinators) -> None:
        self._cluster = cluster
        self._coordinators = coordinators

    async def fetch(self, group_id: str, *, require_stable: bool = False) -> Committed:
        """All that a group has committed; nothing when the group does not exist.

        ``require_stable`` waits for open transactions that will change it (KIP-447).
        """
        return value_of((await self.fetch_many([group_id], require_stable=require_stable))[group_id])

    async def fetch_many(
        self, group_ids: Sequence[str], *, require_stable: bool = False
    ) -> dict[str, Committed | KafkaError]:
        async def ask(node: int, owned: list[str]) -> dict[str, Committed | KafkaError]:
            connection = await self._cluster.connection(node)
            if connection.version_for(OffsetFetchRequest) < _MANY_GROUPS:
                found = await asyncio.gather(
                    *(self._fetch_alone(node, group_id, require_stable) for group_id in owned)
                )
                return dict(zip(owned, found, strict=True))
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in owned],
                require_stable=require_stable,
            )
            response = await connection.request(request, OffsetFetchResponse, max_version=_TOPICS_BY_NAME)
            return {
                group.group_id: _fetch_error(group.group_id, group.error_code)
                if group.error_code
                else _committed((topic.name, topic.partitions) for topic in group.topics)
                for group in response.groups
            }

        return await self._coordinators.each(list(dict.fromkeys(group_ids)), ask)

    async def _fetch_alone(self, node: int, group_id: str, require_stable: bool) -> Committed | KafkaError:
        request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=require_stable)
        response = await self._cluster.node(
            node,
            request,
            OffsetFetchResponse,
            min_version=_REQUIRE_STABLE if require_stable else 2,
            max_version=_MANY_GROUPS - 1,
        )
        if response.error_code:
            return _fetch_error(group_id, response.error_code)
        return _committed((topic.name, topic.partitions) for topic in response.topics)

    async def alter(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Outcomes:
        """Commit from outside the group, which the coordinator allows only while it has no members."""
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for partition, offset in offsets.items():
            by_topic.setdefault(partition.topic, []).append(
                OffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset)
            )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=_NOT_A_MEMBER,
            topics=[
                OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()
            ],
        )

        async def ask(node: int, owned: list[str]) -> dict[str, Outcomes | KafkaError]:
            response = await self._cluster.node(
                node, request, OffsetCommitResponse, max_version=_TOPICS_BY_NAME
            )
            codes = {
                TopicPartition(topic.name, part.partition_index): part.error_code
                for topic in response.topics
                for part in topic.partitions
            }
            return {group_id: _outcomes(group_id, codes)}

        return value_of((await self._coordinators.each([group_id], ask))[group_id])

    async def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> Outcomes:
        """Forget commits; refused for topics that members of the group subscribe to."""
        by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(
                OffsetDeleteRequestPartition(partition_index=partition.partition)
            )
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()
            ],
        )

        async def ask(node: int, owned: list[str]) -> dict[str, Outcomes | KafkaError]:
            response = await self._cluster.node(node, request, OffsetDeleteResponse)
            if response.error_code:
                return {group_id: _group_error(group_id, response.error_code)}
            codes = {
                TopicPartition(topic.name, part.partition_index): part.error_code
                for topic in response.topics
                for part in topic.partitions
            }
            return {group_id: _outcomes(group_id, codes)}

        return value_of((await self._coordinators.each([group_id], ask))[group_id])


def _committed(
    topics: Iterable[tuple[str, Sequence[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]],
) -> Committed | KafkaError:
    topics = list(topics)
    for name, partitions in topics:
        for part in partitions:
            if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                unsettled = TopicPartition(name, part.partition_index)
                return error_of(part.error_code, f"a transaction still decides about {unsettled}")
    return {
        TopicPartition(name, part.partition_index): CommittedOffset(
            part.committed_offset, part.committed_leader_epoch, part.metadata or ""
        )
        for name, partitions in sorted(topics, key=lambda topic: topic[0])
        for part in sorted(partitions, key=lambda part: part.partition_index)
        if part.committed_offset >= 0
    }


_OF_THE_COORDINATOR = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


def _outcomes(group_id: str, codes: Mapping[TopicPartition, int]) -> Outcomes | KafkaError:
    """What became of each partition; one word of a coordinator that is not ready is about all of them."""
    for code in codes.values():
        if code in _OF_THE_COORDINATOR:
            return _group_error(group_id, code)
    return {
        partition: _partition_error(group_id, partition, code) if code else None
        for partition, code in codes.items()
    }


def _partition_error(group_id: str, partition: TopicPartition, code: int) -> KafkaError:
    if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH):
        return error_of(code, f"group {group_id!r} has members, only they may commit")
    if code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return error_of(code, f"group {group_id!r} subscribes to {partition.topic!r}")
    return error_of(code, str(partition))


def _group_error(group_id: str, code: int) -> KafkaError:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return error_of(code, f"group {group_id!r} does not exist")
    if code == ErrorCode.NON_EMPTY_GROUP:
        return error_of(code, f"group {group_id!r} has members")
    return error_of(code, f"offsets of group {group_id!r} cannot be changed")


def _fetch_error(group_id: str, code: int) -> KafkaError:
    return error_of(code, f"offsets of group {group_id!r} cannot be read")
