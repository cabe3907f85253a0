"""The progress of a member towards its target: the possible step, its record, and the revocation timeout."""

from __future__ import annotations

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.consumer import target
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember, MemberState
from ruslo.machines.groups.consumer.reconcile import Owned, reconcile
from ruslo.machines.groups.consumer.records import current_record
from ruslo.machines.groups.epoch_group import watch_revocation
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind


def move(
    shard: ShardState,
    group: ConsumerGroup,
    member: ConsumerMember,
    target_epoch: int,
    partitions: Partitions,
    owned: Owned,
    now_ms: int,
    outcome: GroupOutcome,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Reconcile the member, add its record, and start or cancel its revocation timeout."""
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
    outcome.append([current_record(group.group_id, moved)])
    if moved.classic is None:
        # Classic members have other timeouts: for rejoining and for SyncGroup.
        if moved.state is MemberState.UNREVOKED:
            watch_revocation(shard, group.group_id, moved, now_ms)
        else:
            shard.timers.cancel(TimerKey(group.group_id, moved.member_id, TimerKind.REBALANCE))
    return moved
