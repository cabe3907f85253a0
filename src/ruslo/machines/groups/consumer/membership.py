"""Admits new members, and rejects members with an old epoch."""

from __future__ import annotations

from dataclasses import replace

from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember
from ruslo.machines.groups.consumer.reconcile import Owned
from ruslo.machines.groups.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from ruslo.machines.groups.epoch_group import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    fenced_epoch,
    unreleased_instance,
)
from ruslo.machines.groups.group import CONSUMER
from ruslo.machines.groups.outcome import GroupOutcome


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """Raise KafkaError for an old or unknown epoch. Epoch 0 joins, possibly again after fencing."""
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise fenced_epoch(CONSUMER, member.epoch, epoch)
    # The response that bumped its epoch may have been lost.
    if epoch != member.previous_epoch or not _has_all(member, owned):
        raise fenced_epoch(CONSUMER, member.epoch, epoch)


def admitted(
    group: ConsumerGroup, member_id: str, instance_id: str | None, outcome: GroupOutcome, *, classic: bool
) -> ConsumerMember:
    """The member that joins, new or not; a static one replaces the last owner of its instance id."""
    holder = group.static_member(instance_id)
    if holder is None or instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not classic and holder.classic is None and holder.epoch != STATIC_LEAVE_EPOCH:
        raise unreleased_instance(instance_id, holder)
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
