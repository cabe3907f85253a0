"""A member's new words about itself, and whether they raise the group's epoch."""

from __future__ import annotations

from typing import NamedTuple

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.consumer import regexes, target, topic_hash
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember, MemberState
from ruslo.machines.groups.consumer.reconcile import Owned, reconcile
from ruslo.machines.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    partition_metadata_tombstone,
)
from ruslo.machines.groups.consumer.regexes import RegexChange
from ruslo.machines.groups.decision import Decision
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKind


class Change(NamedTuple):
    group_epoch: int
    """After it."""
    of_subscription: bool
    """Names or pattern are others than before."""


def save(
    shard: ShardState,
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    now_ms: int,
    decision: Decision,
    *,
    unresolved_bumps: bool = False,
) -> Change:
    """Write the member if it changed, and the group's epoch if that matters to others.

    ``unresolved_bumps``: a pattern that changed raises the epoch even if it is not resolved.
    """
    if new != old:
        decision.records.append(member_record(group.group_id, new))
    names_changed = new.topic_names != old.topic_names
    regex_change = regexes.changed(shard, group, old, new, now_ms, decision)
    bump = names_changed or regex_change is RegexChange.RESOLVED
    if unresolved_bumps and regex_change is RegexChange.UNRESOLVED:
        bump = True
    epoch = group.epoch
    if bump or group.refresh_due:
        metadata_hash = topic_hash.of_topics(shard.topics, group.topics_with(old, new))
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            decision.records.append(epoch_record(group.group_id, epoch, metadata_hash))
        group.refreshed_epoch = epoch
        if group.has_partition_metadata:
            decision.records.append(partition_metadata_tombstone(group.group_id))
    return Change(epoch, names_changed or regex_change is not RegexChange.NONE)


def move(
    shard: ShardState,
    group: ConsumerGroup,
    member: ConsumerMember,
    target_epoch: int,
    partitions: Partitions,
    owned: Owned,
    now_ms: int,
    decision: Decision,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Reconcile the member, write what came of it and watch over its revocations."""
    moved = reconcile(
        member,
        target_epoch=target_epoch,
        target=partitions,
        subscribed_topic_ids=lambda: target.subscribed_topic_ids(group, shard.topics, member),
        subscription_changed=subscription_changed,
        is_held=group.is_held,
        owned=owned,
    )
    if moved == member:
        return member
    decision.records.append(current_record(group.group_id, moved))
    if moved.classic is None:
        # Classic members have deadlines of their own: for joining again, and for asking what they got.
        if moved.state is MemberState.UNREVOKED:
            watch_revocation(shard, group, moved, now_ms)
        else:
            shard.timers.cancel(group.group_id, moved.member_id, TimerKind.REBALANCE)
    return moved


def watch_revocation(shard: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    deadline_ms = now_ms + member.rebalance_timeout_ms
    shard.timers.set(group.group_id, member.member_id, TimerKind.REBALANCE, deadline_ms)
