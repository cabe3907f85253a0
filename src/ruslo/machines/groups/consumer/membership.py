"""Finds the member of a request, admits new members, and rejects members with an old epoch."""

from __future__ import annotations

from dataclasses import replace

from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember
from ruslo.machines.groups.consumer.reconcile import Owned
from ruslo.machines.groups.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.model.errors import ErrorCode, KafkaError


def check_room(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    if len(group.members) >= max_size and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"Group {group.group_id!r} has {len(group.members)} members, the maximum of "
            f"group.consumer.max.size",
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """Raise KafkaError for an old or unknown epoch. Epoch 0 joins, possibly again after fencing."""
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise _fenced(member, epoch, "greater")
    # The response that bumped its epoch may have been lost.
    if epoch != member.previous_epoch or not _has_all(member, owned):
        raise _fenced(member, epoch, "smaller")


def identified(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The existing member with this id; a static member must own its instance id."""
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Group {group.group_id!r} has no member with instance id {instance_id!r}",
        )
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance id {instance_id!r} belongs to member {member.member_id!r} now, not to {member_id!r}",
        )
    return member


def admitted(
    group: ConsumerGroup, member_id: str, instance_id: str | None, outcome: GroupOutcome, *, classic: bool
) -> ConsumerMember:
    """The member that joins, new or not; a static one replaces the last owner of its instance id."""
    holder = group.static_member(instance_id)
    if holder is None or instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not classic and holder.classic is None and holder.epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance id {instance_id!r} still belongs to member {holder.member_id!r}. Wait until that "
            f"member has left or its session has expired.",
        )
    member = replace(holder, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    group_id = group.group_id
    # The old member's timers keep running in case the append fails; otherwise they find no member.
    outcome.append(member_tombstones(group_id, holder.member_id))
    outcome.append(
        [
            member_record(group_id, member),
            target_record(group_id, member_id, group.target.get(holder.member_id, {})),
            current_record(group_id, member),
        ]
    )
    return member


def _has_all(member: ConsumerMember, owned: Owned) -> bool:
    return owned is not None and all(
        partition in member.assigned.get(topic_id, ())
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def _fenced(member: ConsumerMember, epoch: int, how: str) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"Epoch {epoch} is {how} than {member.epoch}, the current one of member {member.member_id!r}. "
        f"Abandon all partitions and rejoin.",
    )
