"""What happens to a classic group when a deadline comes, or when its coordinator has just been loaded."""

from __future__ import annotations

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKind
from ruslo.machines.machine import Outcome


def loaded(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    """Nobody knows when its members were last heard of: each gets a whole session."""
    for member in group.members.values():
        rebalance.renew_session(shard, group, member, now_ms)
    if len(group.members) > shard.settings.max_size:
        # The limit was lowered while the group was elsewhere: whoever joins last is turned away (KIP-389).
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
    if kind is TimerKind.ADOPT:
        return _adopt(shard, group, now_ms)
    # An answer that never came to the consumer group which this one has come out of.
    return Outcome()


def _member_timer_fired(
    shard: ShardState, group: ClassicGroup, member_id: str, kind: TimerKind, now_ms: int
) -> GroupOutcome:
    if kind is TimerKind.PENDING:
        group.pending_joins.discard(member_id)
        return rebalance.complete_if_all_joined(shard, group, now_ms)
    if kind is TimerKind.SESSION and member_id in group.members:
        return _session_over(shard, group, member_id, now_ms)
    # Members of a consumer group have more timers; these are left of one that has become this group.
    return Outcome()


def _session_over(shard: ShardState, group: ClassicGroup, member_id: str, now_ms: int) -> GroupOutcome:
    member = group.members[member_id]
    if not member.is_new and (member.join is not None or member.sync is not None):
        # It waits for us, not we for it; its session begins anew with the answer.
        return Outcome()
    replies = rebalance.remove_member(shard, group, member_id)
    outcome = rebalance.member_left(shard, group, now_ms)
    outcome.replies[:0] = replies
    return outcome


def _adopt(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    """It has just come out of a consumer group, with the members that stay (KIP-848)."""
    for member in group.members.values():
        rebalance.renew_session(shard, group, member, now_ms)
    if group.state is ClassicState.STABLE:
        return rebalance.prepare(shard, group, now_ms)
    return Outcome()
