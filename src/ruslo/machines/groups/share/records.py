"""Builds the records of share groups, types 10 to 15."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.records import GroupRecord, consumer_record, tombstone
from ruslo.machines.groups.share.member import STABLE, ShareMember
from ruslo.machines.groups.share.partition_states import PartitionStates, TopicStates
from ruslo.protocol.messages.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.share_group_current_member_assignment_value import (
    TopicPartitions as CurrentPartitions,
)
from ruslo.protocol.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from ruslo.protocol.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from ruslo.protocol.messages.share_group_metadata_key import ShareGroupMetadataKey
from ruslo.protocol.messages.share_group_metadata_value import ShareGroupMetadataValue
from ruslo.protocol.messages.share_group_state_partition_metadata_key import (
    ShareGroupStatePartitionMetadataKey,
)
from ruslo.protocol.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from ruslo.protocol.messages.share_group_target_assignment_member_key import (
    ShareGroupTargetAssignmentMemberKey,
)
from ruslo.protocol.messages.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
)
from ruslo.protocol.messages.share_group_target_assignment_member_value import (
    TopicPartition as TargetPartitions,
)
from ruslo.protocol.messages.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from ruslo.protocol.messages.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)


def member_record(group_id: str, member: ShareMember) -> GroupRecord:
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )
    return consumer_record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return consumer_record(ShareGroupMetadataKey(group_id=group_id), value)


def target_epoch_record(group_id: str, epoch: int, computed_ms: int) -> GroupRecord:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=computed_ms)
    return consumer_record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    return consumer_record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ShareMember) -> GroupRecord:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=[
            CurrentPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ],
    )
    return consumer_record(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value
    )


def states_record(group_id: str, states: PartitionStates) -> GroupRecord:
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics(states.initializing),
        initialized_topics=_topics(states.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in states.deleting.items()
        ],
    )
    return consumer_record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The tombstones of types 14, 13 and 10; another order cannot be loaded."""
    return [
        tombstone(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[GroupRecord]:
    """The tombstones of all records of a group, in an order that can be loaded."""
    of_members = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in of_members),
        *(target for _, target, _ in of_members),
        tombstone(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(metadata for _, _, metadata in of_members),
        tombstone(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        tombstone(ShareGroupMetadataKey(group_id=group_id)),
    ]


def _topics(topics: TopicStates) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=known.name, partitions=sorted(known.partitions))
        for topic_id, known in topics.items()
    ]
