"""Committed offsets of groups: fetch, alter, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ruslo.client.wire.by_topic import by_topic
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

_REQUIRE_STABLE_VERSION = 7
_BATCH_VERSION = 8
"""The first version of OffsetFetch for several groups (KIP-709)."""
_TOPIC_NAME_VERSION_MAX = 9
"""Later versions identify topics by id, which hides offsets of topics that have been deleted."""
_NOT_A_MEMBER = -1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


Committed: TypeAlias = dict[TopicPartition, CommittedOffset]
Outcomes: TypeAlias = dict[TopicPartition, KafkaError | None]
"""None, or the error, by partition."""


class GroupOffsets:
    def __init__(self, cluster: Cluster, coordinators: Coordinators) -> None:
        self._cluster = cluster
        self._coordinators = coordinators

    async def fetch(self, group_id: str, *, require_stable: bool = False) -> Committed:
        """All committed offsets of a group; empty when the group does not exist.

        ``require_stable`` waits for open transactions with pending offset commits (KIP-447).
        """
        return value_of((await self.fetch_many([group_id], require_stable=require_stable))[group_id])

    async def fetch_many(
        self, group_ids: Sequence[str], *, require_stable: bool = False
    ) -> dict[str, Committed | KafkaError]:
        async def query(node: int, owned: list[str]) -> dict[str, Committed | KafkaError]:
            connection = await self._cluster.connection(node)
            if connection.version_for(OffsetFetchRequest) < _BATCH_VERSION:
                found = await asyncio.gather(
                    *(self._fetch_one(node, group_id, require_stable) for group_id in owned)
                )
                return dict(zip(owned, found, strict=True))
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in owned],
                require_stable=require_stable,
            )
            response = await connection.request(
                request, OffsetFetchResponse, max_version=_TOPIC_NAME_VERSION_MAX
            )
            return {
                group.group_id: _fetch_error(group.group_id, group.error_code)
                if group.error_code
                else _committed((topic.name, topic.partitions) for topic in group.topics)
                for group in response.groups
            }

        return await self._coordinators.each(list(dict.fromkeys(group_ids)), query)

    async def _fetch_one(self, node: int, group_id: str, require_stable: bool) -> Committed | KafkaError:
        request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=require_stable)
        response = await self._cluster.node(
            node,
            request,
            OffsetFetchResponse,
            min_version=_REQUIRE_STABLE_VERSION if require_stable else 2,
            max_version=_BATCH_VERSION - 1,
        )
        if response.error_code:
            return _fetch_error(group_id, response.error_code)
        return _committed((topic.name, topic.partitions) for topic in response.topics)

    async def alter(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Outcomes:
        """Commit offsets for a group, which its coordinator accepts only while the group has no members."""
        topics = by_topic(
            (tp, OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=offset))
            for tp, offset in offsets.items()
        )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=_NOT_A_MEMBER,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )

        async def query(node: int) -> Outcomes | KafkaError:
            response = await self._cluster.node(
                node, request, OffsetCommitResponse, max_version=_TOPIC_NAME_VERSION_MAX
            )
            return _outcomes(group_id, response)

        return await self._coordinators.one(group_id, query)

    async def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> Outcomes:
        """Delete committed offsets; rejected for topics that members of the group subscribe to."""
        topics = by_topic(
            (tp, OffsetDeleteRequestPartition(partition_index=tp.partition)) for tp in partitions
        )
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )

        async def query(node: int) -> Outcomes | KafkaError:
            response = await self._cluster.node(node, request, OffsetDeleteResponse)
            if response.error_code:
                return group_error(group_id, response.error_code)
            return _outcomes(group_id, response)

        return await self._coordinators.one(group_id, query)


def _committed(
    topics: Iterable[tuple[str, Sequence[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]],
) -> Committed | KafkaError:
    topics = list(topics)
    for name, partitions in topics:
        for part in partitions:
            if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                pending = TopicPartition(name, part.partition_index)
                return error_of(part.error_code, f"an open transaction has a pending commit of {pending}")
    return {
        TopicPartition(name, part.partition_index): CommittedOffset(
            part.committed_offset, part.committed_leader_epoch, part.metadata or ""
        )
        for name, partitions in sorted(topics, key=lambda topic: topic[0])
        for part in sorted(partitions, key=lambda part: part.partition_index)
        if part.committed_offset >= 0
    }


_COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


def _outcomes(group_id: str, response: OffsetCommitResponse | OffsetDeleteResponse) -> Outcomes | KafkaError:
    """The outcome by partition; an error of the coordinator itself applies to all of them."""
    codes = {
        TopicPartition(topic.name, part.partition_index): part.error_code
        for topic in response.topics
        for part in topic.partitions
    }
    for code in codes.values():
        if code in _COORDINATOR_ERRORS:
            return group_error(group_id, code)
    return {
        partition: _partition_error(group_id, partition, code) if code else None
        for partition, code in codes.items()
    }


def _partition_error(group_id: str, partition: TopicPartition, code: int) -> KafkaError:
    if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH):
        return error_of(code, f"group {group_id!r} has members: only they may commit")
    if code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return error_of(code, f"group {group_id!r} subscribes to {partition.topic!r}")
    return error_of(code, str(partition))


def group_error(group_id: str, code: int) -> KafkaError:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return error_of(code, f"group {group_id!r} does not exist")
    if code == ErrorCode.NON_EMPTY_GROUP:
        return error_of(code, f"group {group_id!r} has members")
    return error_of(code, f"offsets of group {group_id!r} cannot be changed")


def _fetch_error(group_id: str, code: int) -> KafkaError:
    return error_of(code, f"offsets of group {group_id!r} cannot be read")
