"""A static member rejoins without its member id (KIP-345).

It gets a new id, and the old id is fenced. If the group is stable and the selected protocol stays the same,
there is no rebalance: the member keeps its assignment, even with another subscription. A leader must not
assign again: since v9 the response says so (KIP-814); before, the response names the old member id as the
leader, so the member does not take itself for the leader.
"""

from __future__ import annotations

from collections.abc import Callable

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.classic.member import ClassicMember, ParkedRequest
from ruslo.machines.groups.classic.responses import join_response
from ruslo.machines.groups.outcome import GroupOutcome, GroupReply
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode

SKIP_ASSIGNMENT_MIN_VERSION = 9


def replace_static_member(
    shard: ShardState,
    group: ClassicGroup,
    member: ClassicMember,
    new_id: str,
    renew: Callable[[ClassicMember], None],
    call: ParkedRequest,
    now_ms: int,
) -> GroupOutcome:
    """``renew`` updates the member with the properties of the new JoinGroup."""
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
    if call.api_version >= SKIP_ASSIGNMENT_MIN_VERSION:
        response = join_response(group, member, skip_assignment=True)
    else:
        response = join_response(group, member, leader=old_leader)
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
