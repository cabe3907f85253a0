"""Builds the records of consumer groups, types 3 to 8 and 16."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.consumer.member import ConsumerMember, PartitionEpochs
from ruslo.machines.groups.events import ResolvedRegex
from ruslo.machines.groups.records import GroupRecord, consumer_record, tombstone
from ruslo.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.consumer_group_current_member_assignment_value import (
    TopicPartitions as CurrentPartitions,
)
from ruslo.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ruslo.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ruslo.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ruslo.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ruslo.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ruslo.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ruslo.protocol.messages.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from ruslo.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ruslo.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from ruslo.protocol.messages.consumer_group_target_assignment_member_value import (
    TopicPartition as TargetPartitions,
)
from ruslo.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ruslo.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return consumer_record(ConsumerGroupMetadataKey(group_id=group_id), value)


def epoch_tombstone(group_id: str) -> GroupRecord:
    return tombstone(ConsumerGroupMetadataKey(group_id=group_id))


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    """The record that Kafka before 4.1 used for topic metadata; the hash in the epoch record replaces it."""
    return tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        # Left out it would read as an empty one, not as none.
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
            ],
        ),
    )
    return consumer_record(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The tombstones of types 8, 7 and 5; another order cannot be loaded."""
    return [
        tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def target_epoch_record(group_id: str, epoch: int, computed_ms: int) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=computed_ms
    )
    return consumer_record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    return consumer_record(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value
    )


def current_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_current_partitions(member.assigned),
        partitions_pending_revocation=_current_partitions(member.pending_revocation),
    )
    return consumer_record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value
    )


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> GroupRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.metadata_version, timestamp=resolved.resolved_ms
    )
    return consumer_record(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value
    )


def regex_tombstone(group_id: str, regex: str) -> GroupRecord:
    return tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[GroupRecord]:
    """The tombstones of all records of a group, in an order that can be loaded."""
    of_members = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in of_members),
        *(target for _, target, _ in of_members),
        tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(metadata for _, _, metadata in of_members),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        epoch_tombstone(group_id),
    ]


def _current_partitions(partitions: PartitionEpochs) -> list[CurrentPartitions]:
    result = []
    for topic_id, epochs in partitions.items():
        in_order = sorted(epochs)
        result.append(
            CurrentPartitions(
                topic_id=topic_id,
                partitions=in_order,
                assignment_epochs=[epochs[partition] for partition in in_order],
            )
        )
    return result
