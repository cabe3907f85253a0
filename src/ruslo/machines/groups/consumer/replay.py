"""Replays records of consumer groups: only this changes their logged state.

As in Apache Kafka, a log cannot be loaded if the tombstone of a member precedes those of its assignments, or
the tombstone of a group precedes those of its members: it reveals a defect of the coordinator that wrote it.
Tombstones of unknown keys are ignored, because compaction leaves them behind.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeAlias

from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember, with_assignment, with_metadata
from ruslo.machines.groups.epoch_group import LEAVE_EPOCH
from ruslo.machines.groups.events import ResolvedRegex
from ruslo.machines.groups.group import Group
from ruslo.machines.groups.records import GroupRecord
from ruslo.model.errors import CorruptLogError
from ruslo.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ruslo.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
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
from ruslo.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ruslo.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

_Key: TypeAlias = (
    ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupRegularExpressionKey
    | ConsumerGroupPartitionMetadataKey
)


def replay(groups: MutableMapping[str, Group], record: GroupRecord) -> None:
    """Apply a record of the types 3 to 8 and 16."""
    key, value = record.key, record.value
    assert isinstance(key, _Key)
    group = _group(groups, key.group_id, create=value is not None)
    if group is None:
        return
    if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
        assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
        _current_assignment(group, key.member_id, value)
    elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
        assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
        _target(group, key.member_id, value)
    elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
        assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
        _target_epoch(group, value)
    elif isinstance(key, ConsumerGroupMemberMetadataKey):
        assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
        _member(group, key.member_id, value)
    elif isinstance(key, ConsumerGroupMetadataKey):
        assert value is None or isinstance(value, ConsumerGroupMetadataValue)
        _epoch(groups, group, value)
    elif isinstance(key, ConsumerGroupRegularExpressionKey):
        assert value is None or isinstance(value, ConsumerGroupRegularExpressionValue)
        _regex(group, key.regular_expression, value)
    else:
        group.has_partition_metadata = value is not None


def _group(groups: MutableMapping[str, Group], group_id: str, *, create: bool) -> ConsumerGroup | None:
    group = groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if not create:
        return None
    # A group that consists only of offsets has no record, so there is no tombstone of it.
    is_simple = isinstance(group, ClassicGroup) and group.is_empty and not group.protocol_type
    if group is not None and not is_simple:
        raise CorruptLogError(f"Group {group_id!r} has a record of a consumer group, but is not one")
    created = groups[group_id] = ConsumerGroup(group_id)
    return created


def _epoch(
    groups: MutableMapping[str, Group], group: ConsumerGroup, value: ConsumerGroupMetadataValue | None
) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        return
    group.check_removable()
    del groups[group.group_id]


def _member(group: ConsumerGroup, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
    member = group.members.get(member_id)
    if value is not None:
        group.put_member(with_metadata(member or ConsumerMember(member_id), value))
        return
    if member is None:
        return
    group.check_member_removable(member_id, has_left=member.epoch == LEAVE_EPOCH)
    group.remove_member(member_id)


def _target_epoch(group: ConsumerGroup, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
    if value is not None:
        group.target_epoch = value.assignment_epoch
        group.target_ms = value.assignment_timestamp
        return
    group.remove_target_epoch()


def _target(
    group: ConsumerGroup, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
) -> None:
    if value is None:
        group.target.pop(member_id, None)
    else:
        group.target[member_id] = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
        }


def _current_assignment(
    group: ConsumerGroup, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
) -> None:
    member = group.members.get(member_id)
    if value is not None:
        group.put_member(with_assignment(member or ConsumerMember(member_id), value))
    elif member is not None:
        nothing = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, state=int(member.state)
        )
        group.put_member(with_assignment(member, nothing))


def _regex(group: ConsumerGroup, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
    if value is None:
        group.remove_regex(regex)
    else:
        group.put_regex(regex, ResolvedRegex(tuple(value.topics), value.version, value.timestamp))
