"""Admits new members, and rejects members with an old epoch."""

from __future__ import annotations

from dataclasses import replace

from ruslo.machines.assignors.streams.model import MemberTasks
from ruslo.machines.groups.epoch_group import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    fenced_epoch,
    unreleased_instance,
)
from ruslo.machines.groups.group import STREAMS
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import StreamsMember
from ruslo.machines.groups.streams.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)


def check_epoch(member: StreamsMember, epoch: int, owned: MemberTasks | None) -> None:
    """Raise KafkaError for an old or unknown epoch. Epoch 0 joins, possibly again after fencing."""
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    # The response that bumped its epoch may have been lost.
    is_behind = epoch < member.epoch and epoch == member.previous_epoch
    if not is_behind or owned is None or not member.assigned.contains(owned):
        raise fenced_epoch(STREAMS, member.epoch, epoch)


def admitted(
    group: StreamsGroup, member_id: str, instance_id: str | None, outcome: GroupOutcome
) -> StreamsMember:
    """The member that joins, new or not; a static one replaces the last owner of its instance id."""
    holder = group.static_member(instance_id)
    if holder is None or instance_id is None or holder.member_id == member_id:
        return group.members.get(member_id) or StreamsMember(member_id)
    if holder.epoch != STATIC_LEAVE_EPOCH:
        raise unreleased_instance(instance_id, holder)
    member = replace(holder, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    group_id = group.group_id
    # The old member's timers keep running in case the append fails; otherwise they find no member.
    outcome.append(member_tombstones(group_id, holder.member_id))
    outcome.append(
        [
            member_record(group_id, member),
            target_record(group_id, member_id, group.target_of(holder)),
            current_record(group_id, member),
        ]
    )
    return member
