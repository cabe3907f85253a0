"""Replays records of share groups: only this changes their logged state.

The order of tombstones that a log must have is the one of consumer groups.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeAlias

from ruslo.machines.groups.epoch_group import LEAVE_EPOCH
from ruslo.machines.groups.group import Group
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.share.member import STABLE, ShareMember, with_assignment, with_metadata
from ruslo.machines.groups.share.partition_states import PartitionStates, states_of
from ruslo.model.errors import CorruptLogError
from ruslo.protocol.messages.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
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
)
from ruslo.protocol.messages.share_group_target_assignment_member_key import (
    ShareGroupTargetAssignmentMemberKey,
)
from ruslo.protocol.messages.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
)
from ruslo.protocol.messages.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from ruslo.protocol.messages.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)

_Key: TypeAlias = (
    ShareGroupCurrentMemberAssignmentKey
    | ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupStatePartitionMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupTargetAssignmentMetadataKey
)


def replay(groups: MutableMapping[str, Group], record: GroupRecord) -> None:
    """Apply a record of the types 10 to 15."""
    key, value = record.key, record.value
    assert isinstance(key, _Key)
    group = _group(groups, key.group_id, create=value is not None)
    if group is None:
        return
    if isinstance(key, ShareGroupCurrentMemberAssignmentKey):
        assert value is None or isinstance(value, ShareGroupCurrentMemberAssignmentValue)
        _current_assignment(group, key.member_id, value)
    elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
        assert value is None or isinstance(value, ShareGroupTargetAssignmentMemberValue)
        _target(group, key.member_id, value)
    elif isinstance(key, ShareGroupTargetAssignmentMetadataKey):
        assert value is None or isinstance(value, ShareGroupTargetAssignmentMetadataValue)
        _target_epoch(group, value)
    elif isinstance(key, ShareGroupMemberMetadataKey):
        assert value is None or isinstance(value, ShareGroupMemberMetadataValue)
        _member(group, key.member_id, value)
    elif isinstance(key, ShareGroupMetadataKey):
        assert value is None or isinstance(value, ShareGroupMetadataValue)
        _epoch(groups, group, value)
    else:
        assert value is None or isinstance(value, ShareGroupStatePartitionMetadataValue)
        group.put_states(PartitionStates() if value is None else states_of(value))


def _group(groups: MutableMapping[str, Group], group_id: str, *, create: bool) -> ShareGroup | None:
    group = groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if not create:
        return None
    if group is not None:
        raise CorruptLogError(
            f"Group {group_id!r} has a record of a share group, but is a {group.kind} group"
        )
    created = groups[group_id] = ShareGroup(group_id)
    return created


def _epoch(
    groups: MutableMapping[str, Group], group: ShareGroup, value: ShareGroupMetadataValue | None
) -> None:
    if value is None:
        group.check_removable()
        del groups[group.group_id]
    else:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


def _member(group: ShareGroup, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
    member = group.members.get(member_id)
    if value is not None:
        group.put_member(with_metadata(member or ShareMember(member_id), value))
    elif member is not None:
        group.check_member_removable(member_id, has_left=member.epoch == LEAVE_EPOCH)
        group.remove_member(member_id)


def _target_epoch(group: ShareGroup, value: ShareGroupTargetAssignmentMetadataValue | None) -> None:
    if value is None:
        group.remove_target_epoch()
    else:
        group.target_epoch = value.assignment_epoch
        group.target_ms = value.assignment_timestamp


def _target(group: ShareGroup, member_id: str, value: ShareGroupTargetAssignmentMemberValue | None) -> None:
    target = None
    if value is not None:
        target = {
            topic.topic_id: frozenset(topic.partitions)
            for topic in value.topic_partitions
            if topic.partitions
        }
    group.put_target(member_id, target)


def _current_assignment(
    group: ShareGroup, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None
) -> None:
    member = group.members.get(member_id)
    if value is not None:
        group.put_member(with_assignment(member or ShareMember(member_id), value))
    elif member is not None:
        nothing = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, state=STABLE
        )
        group.put_member(with_assignment(member, nothing))
