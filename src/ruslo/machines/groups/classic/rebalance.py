"""The rebalance of a classic group, from one generation to the next.

1. Prepare: the membership or a subscription changes. The next response tells each member to rejoin, and
   JoinGroup requests are parked.
2. Complete: all members have joined, or the longest of their rebalance timeouts has expired. All members get
   the new generation, and the leader gets the list of members.
3. Sync: within the same timeout each member sends SyncGroup. The leader's request contains the assignment.
"""

from __future__ import annotations

from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.classic.member import ClassicMember
from ruslo.machines.groups.classic.responses import join_response
from ruslo.machines.groups.outcome import GroupOutcome, GroupReply
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome, Reply
from ruslo.model.errors import ErrorCode

NEW_MEMBER_TIMEOUT_MS = 300_000
"""The session timeout of a member whose first JoinGroup is parked: it cannot send heartbeats yet. A member
that is alive repeats the request within this time."""


def renew_session(shard: ShardState, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
    shard.timers.set(
        TimerKey(group.group_id, member.member_id, TimerKind.SESSION), now_ms + member.session_timeout_ms
    )


def remove_member(
    shard: ShardState, group: ClassicGroup, member_id: str, code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
) -> list[GroupReply]:
    shard.timers.cancel(TimerKey(group.group_id, member_id, TimerKind.SESSION))
    replies = group.remove(member_id, code)
    _stop_waiting_for_syncs(shard, group)
    return replies


def membership_changed(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    """Start a rebalance, or complete the current one if all members have joined."""
    if group.state is ClassicState.PREPARING:
        return complete_if_all_joined(shard, group, now_ms)
    return prepare(shard, group, now_ms)


def member_left(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    """As ``membership_changed``, except that an empty group does not rebalance."""
    if group.state is ClassicState.EMPTY:
        return Outcome()
    return membership_changed(shard, group, now_ms)


def complete_if_all_joined(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    # The first rebalance ends only with the initial delay, so more members can join.
    preparing = group.state is ClassicState.PREPARING
    if preparing and group.previous_state is not ClassicState.EMPTY and group.all_joined:
        return complete_join(shard, group, now_ms)
    return Outcome()


def prepare(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    timers, group_id = shard.timers, group.group_id
    outcome: GroupOutcome = Outcome()
    if group.state is ClassicState.COMPLETING:
        outcome.replies += _fail_syncs(shard, group, now_ms)
    group.pending_syncs.clear()
    timers.cancel(TimerKey(group_id, None, TimerKind.SYNC))
    was_empty = group.is_empty
    group.move_to(ClassicState.PREPARING, shard.wall_ms)
    if was_empty:
        delay_ms = shard.settings.initial_rebalance_delay_ms
        group.newcomers_during_delay = False
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        timers.set(TimerKey(group_id, None, TimerKind.INITIAL_DELAY), now_ms + delay_ms)
        return outcome
    if group.all_joined:
        completed = complete_join(shard, group, now_ms)
        completed.replies[:0] = outcome.replies
        return completed
    timers.set(TimerKey(group_id, None, TimerKind.JOIN), now_ms + group.rebalance_timeout_ms)
    return outcome


def initial_delay_over(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    """Extend the delay if a member has joined meanwhile, up to the rebalance timeout in total."""
    if group.newcomers_during_delay and group.initial_delay_left_ms > 0:
        group.newcomers_during_delay = False
        delay_ms = min(shard.settings.initial_rebalance_delay_ms, group.initial_delay_left_ms)
        group.initial_delay_left_ms -= delay_ms
        shard.timers.set(TimerKey(group.group_id, None, TimerKind.INITIAL_DELAY), now_ms + delay_ms)
        return Outcome()
    return complete_join(shard, group, now_ms)


def complete_join(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    """Start the next generation with the members that have joined."""
    timers, group_id = shard.timers, group.group_id
    timers.cancel(TimerKey(group_id, None, TimerKind.JOIN))
    timers.cancel(TimerKey(group_id, None, TimerKind.INITIAL_DELAY))
    outcome: GroupOutcome = Outcome()
    absent = [each for each in group.members.values() if each.join is None and each.instance_id is None]
    for member in absent:
        outcome.replies += remove_member(shard, group, member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and none has rejoined: their sessions decide (KIP-345).
        timers.set(TimerKey(group_id, None, TimerKind.JOIN), now_ms + group.rebalance_timeout_ms)
        return outcome
    group.next_generation(shard.wall_ms)
    if group.is_empty:
        outcome.append([group.to_record()])
        return outcome
    for member in group.members.values():
        if member.join is not None:
            outcome.replies.append(Reply(member.join.token, join_response(group, member)))
            member.join = None
        member.is_new = False
        renew_session(shard, group, member, now_ms)
        group.pending_syncs.add(member.member_id)
    group.waiting = 0
    timers.set(TimerKey(group_id, None, TimerKind.SYNC), now_ms + group.rebalance_timeout_ms)
    return outcome


def member_synced(shard: ShardState, group: ClassicGroup, member: ClassicMember) -> None:
    group.pending_syncs.discard(member.member_id)
    _stop_waiting_for_syncs(shard, group)


def syncs_overdue(shard: ShardState, group: ClassicGroup, now_ms: int) -> GroupOutcome:
    """Remove members that have not sent SyncGroup in time."""
    replies: list[GroupReply] = []
    for member_id in sorted(group.pending_syncs):
        replies += remove_member(shard, group, member_id)
    outcome = prepare(shard, group, now_ms)
    outcome.replies[:0] = replies
    return outcome


def _fail_syncs(shard: ShardState, group: ClassicGroup, now_ms: int) -> list[GroupReply]:
    """Fail parked SyncGroup requests: a new rebalance replaces their generation."""
    replies: list[GroupReply] = []
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            replies += group.unpark(member, ErrorCode.REBALANCE_IN_PROGRESS)
            # Its session timer may have fired while the request was parked.
            renew_session(shard, group, member, now_ms)
    return replies


def _stop_waiting_for_syncs(shard: ShardState, group: ClassicGroup) -> None:
    if not group.pending_syncs:
        shard.timers.cancel(TimerKey(group.group_id, None, TimerKind.SYNC))
