"""Consumer groups and events without a request: loads, metadata changes, query results."""

from __future__ import annotations

from ruslo.machines.groups.consumer import regexes, target
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import MemberState
from ruslo.machines.groups.consumer.timers import start_sessions
from ruslo.machines.groups.epoch_group import watch_revocation
from ruslo.machines.groups.events import RegexResolved, TargetComputed
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome


def loaded(shard: ShardState, now_ms: int) -> GroupOutcome:
    """Start a full session for every member, and a full rebalance timeout for every pending revocation."""
    for group in shard.groups.values():
        if not isinstance(group, ConsumerGroup):
            continue
        # Topics may have been created before the load.
        group.topics_created_version = shard.topics.version
        start_sessions(shard, group, now_ms)
        for member in group.members.values():
            if member.state is MemberState.UNREVOKED and member.classic is None:
                watch_revocation(shard, group.group_id, member, now_ms)
    return Outcome()


def topics_changed(shard: ShardState, changed_topics: frozenset[str], now_ms: int) -> GroupOutcome:
    """Groups apply the change with their next heartbeat."""
    may_be_new = any(shard.topics.by_name(name) is not None for name in changed_topics)
    for group in shard.groups.values():
        if not isinstance(group, ConsumerGroup):
            continue
        if group.subscribes_to_any(changed_topics):
            group.refreshed_epoch = None
        if may_be_new:
            group.topics_created_version = shard.topics.version
    return Outcome()


def regex_resolved(shard: ShardState, event: RegexResolved, now_ms: int) -> GroupOutcome:
    group = shard.groups.get(event.group_id)
    if isinstance(group, ConsumerGroup):
        return regexes.resolved(shard, group, event)
    # The group was deleted meanwhile. If it is created again, it need not wait for this result.
    shard.timers.cancel(TimerKey(event.group_id, None, TimerKind.REGEX))
    return Outcome()


def target_computed(shard: ShardState, event: TargetComputed, now_ms: int) -> GroupOutcome:
    group = shard.groups.get(event.group_id)
    if isinstance(group, ConsumerGroup):
        return target.computed(shard, group, event, now_ms)
    shard.timers.cancel(TimerKey(event.group_id, None, TimerKind.ASSIGNMENT))
    return Outcome()
