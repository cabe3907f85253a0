"""Who is asking: finds the member a request is from, lets new ones in, and refuses whoever is out of date."""

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
            f"group {group.group_id!r} has {len(group.members)} members, the most that "
            f"group.consumer.max.size allows",
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """Epoch 0 is always good: the member joins, for the first time or after it was fenced."""
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise _fenced(member, epoch, "greater")
    # The answer that raised its epoch may have been lost on its way.
    if epoch != member.previous_epoch or not _has_all(member, owned):
        raise _fenced(member, epoch, "smaller")


def identified(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member, which must be known already; of a static one, its present holder."""
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"group {group.group_id!r} has no member with instance id {instance_id!r}",
        )
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"instance id {instance_id!r} is now held by member {member.member_id!r}, not by {member_id!r}",
        )
    return member


def admitted(
    group: ConsumerGroup, member_id: str, instance_id: str | None, outcome: GroupOutcome, *, classic: bool
) -> ConsumerMember:
    """The member that joins, known or not; a static one takes the place of the last holder of its id."""
    holder = group.static_member(instance_id)
    if holder is None or instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not classic and holder.classic is None and holder.epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"instance id {instance_id!r} is still held by member {holder.member_id!r}; it is free when that "
            f"one has left, or its session has ended",
        )
    member = replace(holder, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    group_id = group.group_id
    # The old member's timers run on, in case this is never written; afterwards they find nobody.
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
        f"epoch {epoch} is {how} than {member.epoch}, the one member {member.member_id!r} was given; it must "
        f"give up all of its partitions and join again",
    )
