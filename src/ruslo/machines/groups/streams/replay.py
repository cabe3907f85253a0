"""Replays records of streams groups: only this changes their logged state.

As in Apache Kafka, a log cannot be loaded if the tombstone of a member precedes those of its assignments, or
the tombstone of a group precedes those of its members: it reveals a defect of the coordinator that wrote it.
Tombstones of unknown keys are ignored, because compaction leaves them behind.
"""

from __future__ import annotations

from typing import TypeAlias

from ruslo.machines.assignors.streams.model import MemberTasks
from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.epoch_group import LEAVE_EPOCH
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import StreamsMember, with_assignment, with_metadata
from ruslo.machines.groups.streams.tasks import task_ids
from ruslo.machines.groups.streams.topology import StreamsTopology
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.model.errors import CorruptLogError
from ruslo.protocol.messages.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from ruslo.protocol.messages.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from ruslo.protocol.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ruslo.protocol.messages.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from ruslo.protocol.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from ruslo.protocol.messages.streams_group_metadata_value import StreamsGroupMetadataValue
from ruslo.protocol.messages.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from ruslo.protocol.messages.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from ruslo.protocol.messages.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from ruslo.protocol.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from ruslo.protocol.messages.streams_group_topology_key import StreamsGroupTopologyKey
from ruslo.protocol.messages.streams_group_topology_value import StreamsGroupTopologyValue

_Key: TypeAlias = (
    StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupMetadataKey
    | StreamsGroupTopologyKey
)


def replay(shard: ShardState, record: GroupRecord) -> None:
    """Apply a record of the types 17 and 19 to 23."""
    key, value = record.key, record.value
    assert isinstance(key, _Key)
    group = _group(shard, key.group_id, create=value is not None)
    if group is None:
        return
    if isinstance(key, StreamsGroupCurrentMemberAssignmentKey):
        assert value is None or isinstance(value, StreamsGroupCurrentMemberAssignmentValue)
        _current_assignment(group, key.member_id, value)
    elif isinstance(key, StreamsGroupTargetAssignmentMemberKey):
        assert value is None or isinstance(value, StreamsGroupTargetAssignmentMemberValue)
        _target(group, key.member_id, value)
    elif isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
        assert value is None or isinstance(value, StreamsGroupTargetAssignmentMetadataValue)
        _target_epoch(group, value)
    elif isinstance(key, StreamsGroupMemberMetadataKey):
        assert value is None or isinstance(value, StreamsGroupMemberMetadataValue)
        _member(group, key.member_id, value)
    elif isinstance(key, StreamsGroupMetadataKey):
        assert value is None or isinstance(value, StreamsGroupMetadataValue)
        _epoch(shard, group, value)
    else:
        assert value is None or isinstance(value, StreamsGroupTopologyValue)
        group.put_topology(None if value is None else StreamsTopology(value))


def _group(shard: ShardState, group_id: str, *, create: bool) -> StreamsGroup | None:
    group = shard.groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    if not create:
        return None
    # A group that consists only of offsets has no record, so there is no tombstone of it.
    is_simple = isinstance(group, ClassicGroup) and group.is_empty and not group.protocol_type
    if group is not None and not is_simple:
        raise CorruptLogError(f"Group {group_id!r} has a record of a streams group, but is not one")
    created = shard.groups[group_id] = StreamsGroup(group_id)
    return created


def _epoch(shard: ShardState, group: StreamsGroup, value: StreamsGroupMetadataValue | None) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
        return
    group.check_removable()
    shard.timers.cancel(TimerKey(group.group_id, None, TimerKind.INITIAL_DELAY))
    del shard.groups[group.group_id]


def _member(group: StreamsGroup, member_id: str, value: StreamsGroupMemberMetadataValue | None) -> None:
    member = group.members.get(member_id)
    if value is not None:
        group.put_member(with_metadata(member or StreamsMember(member_id), value))
        return
    if member is None:
        return
    group.check_member_removable(member_id, has_left=member.epoch == LEAVE_EPOCH)
    group.remove_member(member_id)


def _target_epoch(group: StreamsGroup, value: StreamsGroupTargetAssignmentMetadataValue | None) -> None:
    if value is not None:
        group.target_epoch = value.assignment_epoch
        group.target_ms = value.assignment_timestamp
        return
    group.remove_target_epoch()


def _target(
    group: StreamsGroup, member_id: str, value: StreamsGroupTargetAssignmentMemberValue | None
) -> None:
    if value is None:
        group.target.pop(member_id, None)
    else:
        group.target[member_id] = MemberTasks(
            task_ids(value.active_tasks), task_ids(value.standby_tasks), task_ids(value.warmup_tasks)
        )


def _current_assignment(
    group: StreamsGroup, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue | None
) -> None:
    member = group.members.get(member_id)
    if value is not None:
        group.put_member(with_assignment(member or StreamsMember(member_id), value))
    elif member is not None:
        nothing = StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, state=int(member.state)
        )
        group.put_member(with_assignment(member, nothing))
