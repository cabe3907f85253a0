"""The start offsets and lags of share groups, for DescribeShareGroupOffsets.

The group coordinator knows which share-partitions have a state, the share coordinators know their start
offsets, and the leaders of the partitions their ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ruslo.broker.coordinators.groups.coordinator import GroupCoordinator
from ruslo.broker.coordinators.share.persister import Results, SharePersister
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.end_offsets import EndOffsets
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.share_coordinator.records import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_COUNT,
    ShareKey,
)
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ruslo.protocol.messages.read_share_group_state_summary_request import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)

_NO_LEADER_EPOCH = -1
_NO_LAG = -1


class _Topic(Protocol):
    topic_name: str
    partitions: list[int]


@dataclass(eq=False)
class ShareOffsets:
    _groups: GroupCoordinator
    _persister: SharePersister
    _metadata: MetadataLoader
    _ends: EndOffsets

    async def initialized(
        self, group_id: str, context: RequestContext
    ) -> list[DescribeShareGroupOffsetsRequestTopic]:
        """The topics and partitions of which the group has states. Raises KafkaError."""
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)]
        )
        response: Any = self._groups.submit(group_id, request, context)
        if not isinstance(response, DescribeShareGroupOffsetsResponse):
            response = await response
        (group,) = response.groups
        if group.error_code:
            raise KafkaError(ErrorCode(group.error_code), f"The coordinator of group {group_id!r} failed")
        return [
            DescribeShareGroupOffsetsRequestTopic(
                topic_name=topic.topic_name, partitions=[each.partition_index for each in topic.partitions]
            )
            for topic in group.topics
        ]

    async def describe(
        self, group_id: str, topics: Sequence[_Topic]
    ) -> DescribeShareGroupOffsetsResponseGroup:
        """A partition without a state has no start offset; that is not an error."""
        ids = {topic.topic_name: self._id_of(topic.topic_name) for topic in topics}
        existing: dict[str, list[int]] = {}
        for topic in topics:
            known = existing.setdefault(topic.topic_name, [])
            known += [index for index in self._existing(topic) if index not in set(known)]
        summaries: Results = {}
        if any(existing.values()):
            summaries = await self._persister.request(_summary_request(group_id, existing, ids))
        with_lag = [
            TopicPartition(name, index)
            for name, partitions in existing.items()
            for index in partitions
            if _has_lag(summaries[ShareKey(group_id, ids[name], index)])
        ]
        ends = await self._ends.of(with_lag)
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id,
            topics=[
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    topic_id=ids[topic.topic_name],
                    partitions=[
                        _described(
                            index,
                            summaries.get(ShareKey(group_id, ids[topic.topic_name], index)),
                            ends.get(TopicPartition(topic.topic_name, index)),
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in topics
            ],
        )

    def _id_of(self, name: str) -> Uuid:
        topic = self._metadata.image.topics.by_name.get(name)
        return ZERO_UUID if topic is None else topic.id

    def _existing(self, topic: _Topic) -> list[int]:
        """The partitions that exist; requests about others would be repeated for a while."""
        known = self._metadata.image.topics.by_name.get(topic.topic_name)
        count = 0 if known is None else len(known.partitions)
        return [index for index in dict.fromkeys(topic.partitions) if 0 <= index < count]


def _summary_request(
    group_id: str, existing: Mapping[str, list[int]], ids: Mapping[str, Uuid]
) -> ReadShareGroupStateSummaryRequest:
    return ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            ReadStateSummaryData(
                topic_id=ids[name],
                partitions=[
                    PartitionData(partition=index, leader_epoch=_NO_LEADER_EPOCH) for index in partitions
                ],
            )
            for name, partitions in existing.items()
            if partitions
        ],
    )


def _has_lag(summary: Any) -> bool:
    return (
        not summary.error_code
        and summary.start_offset != UNINITIALIZED_START_OFFSET
        and summary.delivery_complete_count != UNKNOWN_COUNT
    )


def _described(index: int, summary: Any, end: int | None) -> DescribeShareGroupOffsetsResponsePartition:
    """``summary``: None if the partition does not exist. ``end``: None if it is not known."""
    if summary is None or summary.error_code:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, start_offset=UNINITIALIZED_START_OFFSET
        )
    if _has_lag(summary) and end is None:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index,
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            error_message="The leader of the partition did not report its end offset. Try again.",
        )
    lag = _NO_LAG
    if end is not None:
        lag = end - summary.start_offset - summary.delivery_complete_count
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=lag,
    )
