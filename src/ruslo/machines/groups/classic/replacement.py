"""A static member comes back without its member id (KIP-345).

It is given a new id, and whoever still uses the old one is fenced. In a stable group nothing else changes as
long as the selected protocol stays: the member gets its old assignment, even if it brings another
subscription. If it is the leader, it must not assign again: since v9 the answer says so (KIP-814); before,
the old leader's id is named as the leader, which the member cannot take for its own.
"""

from __future__ import annotations

from collections.abc import Callable

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.answers import joined
from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.classic.member import ClassicMember, ParkedCall
from ruslo.machines.groups.outcome import GroupOutcome, GroupReply
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode

SKIP_ASSIGNMENT_FROM = 9


def replace_static_member(
    shard: ShardState,
    group: ClassicGroup,
    member: ClassicMember,
    new_id: str,
    renew: Callable[[ClassicMember], None],
    call: ParkedCall,
    now_ms: int,
) -> GroupOutcome:
    """``renew`` puts into the member what the new JoinGroup says of it."""
    old_id, old_leader = member.member_id, group.leader
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    outcome: GroupOutcome = Outcome(replies=_rename(shard, group, member, new_id))
    renew(member)
    rebalance.renew_session(shard, group, member, now_ms)

    if group.state is not ClassicState.STABLE or group.select_protocol() != group.protocol:
        member.join = call
        group.waiting += 1
        changed = rebalance.membership_changed(shard, group, now_ms)
        changed.replies[:0] = outcome.replies
        return changed

    group.forget_subscription()
    if call.api_version >= SKIP_ASSIGNMENT_FROM:
        response = joined(group, member, skip_assignment=True)
    else:
        response = joined(group, member, leader=old_leader)
    outcome.reply(call.token, response)
    outcome.append([group.to_record()])

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        if group.members.get(new_id) is not member or group.state is not ClassicState.STABLE:
            return Outcome()
        protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
        group.set_protocols(member, protocols)
        group.forget_subscription()
        replies = _rename(shard, group, member, old_id)
        rebalance.renew_session(shard, group, member, now.monotonic_ms)
        return Outcome(replies=replies)

    outcome.on_failure = on_failure
    return outcome


def _rename(shard: ShardState, group: ClassicGroup, member: ClassicMember, new_id: str) -> list[GroupReply]:
    shard.timers.cancel(TimerKey(group.group_id, member.member_id, TimerKind.SESSION))
    return group.replace_static(member, new_id)
