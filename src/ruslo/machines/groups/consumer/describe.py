"""ConsumerGroupDescribe (KIP-848). v1: whether a member uses the classic protocol (KIP-1099)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember
from ruslo.machines.groups.group import CONSUMER, not_found
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def handle(shard: ShardState, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_group(shard, each) for each in request.group_ids])


def _group(shard: ShardState, group_id: str) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(
            group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID, error_message="The group id is empty"
        )
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=not_found(group_id, group, CONSUMER),
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(shard.settings.consumer_assignors),
        members=[_member(group, member, shard.topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, view: TopicsView) -> Member:
    # The member still reads the partitions that it has to revoke.
    held: dict[Uuid, list[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, indexes in partitions.items():
            held.setdefault(topic_id, []).extend(indexes)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(held, view),
        target_assignment=_assignment(group.target.get(member.member_id, {}), view),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], view: TopicsView) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := view.by_id(topic_id)) is not None
        ]
    )
