"""ShareGroupDescribe v1, and the partitions of DescribeShareGroupOffsets (KIP-932)."""

from __future__ import annotations

from ruslo.machines.groups.group import SHARE, not_found
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.share.member import ShareMember
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup as OffsetsGroup,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponsePartition as OffsetsPartition,
)
from ruslo.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseTopic as OffsetsTopic,
)
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ruslo.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

ASSIGNOR = "simple"


def handle(shard: ShardState, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[_group(shard, each) for each in request.group_ids])


def initialized_partitions(
    shard: ShardState, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """The partitions with a state of each group, without their offsets; none if the group does not exist."""
    return DescribeShareGroupOffsetsResponse(
        groups=[
            OffsetsGroup(group_id=each.group_id, topics=_initialized(shard, each.group_id))
            for each in request.groups
        ]
    )


def _initialized(shard: ShardState, group_id: str) -> list[OffsetsTopic]:
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return []
    return [
        OffsetsTopic(
            topic_name=topic.name,
            topic_id=topic_id,
            partitions=[OffsetsPartition(partition_index=index) for index in sorted(known.partitions)],
        )
        for topic_id, known in group.states.initialized.items()
        if (topic := shard.topics.by_id(topic_id)) is not None
    ]


def _group(shard: ShardState, group_id: str) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(
            group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID, error_message="The group id is empty"
        )
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=not_found(group_id, group, SHARE),
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, shard.topics) for member in group.members.values()],
    )


def _member(member: ShareMember, view: TopicsView) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
                for topic_id, partitions in member.assigned.items()
                if (topic := view.by_id(topic_id)) is not None
            ]
        ),
    )
