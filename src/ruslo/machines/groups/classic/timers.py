"""The timers of a classic group, and how they start after a load."""

from __future__ import annotations

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKind
from ruslo.machines.machine import Outcome


def loaded(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    """Start a full session for every member: the time of the last heartbeats is unknown."""
    for member in group.members.values():
        rebalance.renew_session(shard, group, member, now_ms)
    if len(group.members) > shard.settings.max_size:
        # The limit was lowered meanwhile: the last members to rejoin are rejected (KIP-389).
        return rebalance.prepare(shard, group, now_ms)
    return Outcome()


def fired(
    shard: ShardState, group: ClassicGroup, member_id: str | None, kind: TimerKind, now_ms: int
) -> GroupOutcome:
    if member_id is not None:
        return _member_timer_fired(shard, group, member_id, kind, now_ms)
    if kind is TimerKind.JOIN:
        return rebalance.complete_join(shard, group, now_ms)
    if kind is TimerKind.INITIAL_DELAY:
        return rebalance.initial_delay_over(shard, group, now_ms)
    if kind is TimerKind.SYNC:
        return rebalance.syncs_overdue(shard, group, now_ms)
    if kind in (TimerKind.ADOPT, TimerKind.ADOPT_STABLE):
        return _adopt(shard, group, now_ms, rebalances=kind is TimerKind.ADOPT)
    # A query timeout of the consumer group that was downgraded to this group.
    return Outcome()


def _member_timer_fired(
    shard: ShardState, group: ClassicGroup, member_id: str, kind: TimerKind, now_ms: int
) -> GroupOutcome:
    if kind is TimerKind.PENDING:
        group.pending_joins.discard(member_id)
        return rebalance.complete_if_all_joined(shard, group, now_ms)
    if kind is TimerKind.SESSION and member_id in group.members:
        return _session_over(shard, group, member_id, now_ms)
    # Another timer of a member of the consumer group that was downgraded to this group.
    return Outcome()


def _session_over(shard: ShardState, group: ClassicGroup, member_id: str, now_ms: int) -> GroupOutcome:
    member = group.members[member_id]
    if not member.is_new and (member.join is not None or member.sync is not None):
        # Its request is parked here; the response starts a new session.
        return Outcome()
    replies = rebalance.remove_member(shard, group, member_id)
    outcome = rebalance.member_left(shard, group, now_ms)
    outcome.replies[:0] = replies
    return outcome


def _adopt(shard: ShardState, group: ClassicGroup, now_ms: int, *, rebalances: bool) -> GroupOutcome:
    """Start the sessions of a group that was a consumer group (KIP-848), and a rebalance if it needs one."""
    for member in group.members.values():
        rebalance.renew_session(shard, group, member, now_ms)
    if rebalances and group.state is ClassicState.STABLE:
        return rebalance.prepare(shard, group, now_ms)
    return Outcome()
