"""The timers of a consumer group."""

from __future__ import annotations

from ruslo.machines.groups.consumer import fencing
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember, MemberState
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome


def fired(
    shard: ShardState, group: ConsumerGroup, member_id: str | None, kind: TimerKind, now_ms: int
) -> GroupOutcome:
    if kind is TimerKind.ADOPT:
        start_sessions(shard, group, now_ms)
        return Outcome()
    # Timers of the group itself: a query without a result, or a timer of the former classic group.
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return Outcome()
    is_over = (
        kind is TimerKind.SESSION
        or (kind is TimerKind.REBALANCE and member.state is MemberState.UNREVOKED)
        or (kind in (TimerKind.JOIN, TimerKind.SYNC) and member.classic is not None)
    )
    return fencing.remove(shard, group, [member], now_ms) if is_over else Outcome()


def start_sessions(shard: ShardState, group: ConsumerGroup, now_ms: int) -> None:
    """Start full sessions for members without one: the time of their last heartbeats is unknown."""
    for member_id, member in group.members.items():
        if shard.timers.get(TimerKey(group.group_id, member_id, TimerKind.SESSION)) is None:
            deadline_ms = now_ms + session_timeout_ms(shard, group, member)
            shard.timers.set(TimerKey(group.group_id, member_id, TimerKind.SESSION), deadline_ms)


def session_timeout_ms(shard: ShardState, group: ConsumerGroup, member: ConsumerMember) -> int:
    """The member's own timeout if it is classic, else that of the group's configuration."""
    if member.classic is not None:
        return member.classic.session_timeout_ms
    return shard.settings.consumer_session_timeout_of(group.group_id)
