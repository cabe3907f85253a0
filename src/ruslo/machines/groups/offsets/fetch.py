"""OffsetFetch.

v1: the group's error is in every partition; v2: a top-level error, and null requests all topics; v5: leader
epochs; v7: RequireStable (KIP-447); v8: several groups; v9: member epochs (KIP-848); v10: topic ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.offsets.store import CommittedOffset
from ruslo.machines.groups.state import ShardState
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ruslo.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

SEVERAL_GROUPS_MIN_VERSION = 8
TOPIC_IDS_MIN_VERSION = 10

_UNKNOWN = CommittedOffset(-1, -1, "", -1)


class _Found(NamedTuple):
    partition: int
    offset: CommittedOffset
    code: ErrorCode


def fetch(shard: ShardState, request: OffsetFetchRequest, info: RequestInfo) -> OffsetFetchResponse:
    if info.api_version >= SEVERAL_GROUPS_MIN_VERSION:
        by_id = info.api_version >= TOPIC_IDS_MIN_VERSION
        return OffsetFetchResponse(
            groups=[_of_group(shard, group, request.require_stable, by_id) for group in request.groups]
        )
    if request.topics is None:
        topics = [(name, sorted(found)) for name, found in shard.offsets.of_group(request.group_id).items()]
    else:
        topics = [(topic.name, topic.partition_indexes) for topic in request.topics]
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=found.partition,
                        committed_offset=found.offset.offset,
                        committed_leader_epoch=found.offset.leader_epoch,
                        metadata=found.offset.metadata,
                        error_code=found.code,
                    )
                    for found in _look_up(shard, request.group_id, name, partitions, request.require_stable)
                ],
            )
            for name, partitions in topics
        ]
    )


def _of_group(
    shard: ShardState, request: OffsetFetchRequestGroup, require_stable: bool, by_id: bool
) -> OffsetFetchResponseGroup:
    group = shard.groups.get(request.group_id)
    if group is not None:
        code = group.check_offset_fetch(request.member_id, request.member_epoch)
        if code is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=code)
    if request.topics is None:
        topics = _all_topics(shard, request.group_id, require_stable, by_id)
    else:
        topics, unknown = [], []
        for topic in request.topics:
            name = topic.name
            if by_id:
                info = shard.topics.by_id(topic.topic_id)
                if info is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                    missing = [_Found(partition, _UNKNOWN, code) for partition in topic.partition_indexes]
                    unknown.append(_topic("", topic.topic_id, missing))
                    continue
                name = info.name
            topic_id = topic.topic_id if by_id else ZERO_UUID
            found = _look_up(shard, request.group_id, name, topic.partition_indexes, require_stable, topic_id)
            topics.append(_topic(name, topic_id, found))
        # As in Apache Kafka, errors come last.
        topics += unknown
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)


def _all_topics(
    shard: ShardState, group_id: str, require_stable: bool, by_id: bool
) -> list[OffsetFetchResponseTopics]:
    topics = []
    for name, offsets in shard.offsets.of_group(group_id).items():
        topic_id = ZERO_UUID
        if by_id:
            info = shard.topics.by_name(name)
            if info is None:
                # The topic is deleted, so it has no id.
                continue
            topic_id = info.id
        found = _look_up(shard, group_id, name, sorted(offsets), require_stable, topic_id)
        topics.append(_topic(name, topic_id, found))
    return topics


def _look_up(
    shard: ShardState,
    group_id: str,
    topic: str,
    partitions: Iterable[int],
    require_stable: bool,
    topic_id: Uuid = ZERO_UUID,
) -> list[_Found]:
    """``topic_id``: offsets that were committed for another topic of that name are ignored."""
    store = shard.offsets
    results: list[_Found] = []
    for partition in partitions:
        if require_stable and store.is_pending(group_id, topic, partition):
            results.append(_Found(partition, _UNKNOWN, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            continue
        offset = store.get(group_id, topic, partition)
        if offset is None or (
            topic_id != ZERO_UUID and offset.topic_id != ZERO_UUID and offset.topic_id != topic_id
        ):
            offset = _UNKNOWN
        results.append(_Found(partition, offset, ErrorCode.NONE))
    return results


def _topic(name: str, topic_id: Uuid, found: Iterable[_Found]) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=each.partition,
                committed_offset=each.offset.offset,
                committed_leader_epoch=each.offset.leader_epoch,
                metadata=each.offset.metadata,
                error_code=each.code,
            )
            for each in found
        ],
    )
