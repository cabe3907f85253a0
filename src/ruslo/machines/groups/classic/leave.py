"""LeaveGroup.

v0-2: one member and a top-level error. v3: several members, also static ones, with an error for each
(KIP-345); an operator may name only instance ids. v5: a reason, for logs only.
"""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Outcome
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ruslo.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse

SEVERAL_MEMBERS_MIN_VERSION = 3


def leaving_members(request: LeaveGroupRequest, info: RequestInfo) -> list[MemberIdentity]:
    """The members that leave, in any version."""
    if info.api_version >= SEVERAL_MEMBERS_MIN_VERSION:
        return request.members
    return [MemberIdentity(member_id=request.member_id)]


def leave_response(members: list[tuple[MemberIdentity, ErrorCode]], info: RequestInfo) -> LeaveGroupResponse:
    """The response in the schema of the version."""
    if info.api_version < SEVERAL_MEMBERS_MIN_VERSION:
        return LeaveGroupResponse(error_code=members[0][1])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code
            )
            for member, code in members
        ]
    )


def handle(
    shard: ShardState,
    group: ClassicGroup | None,
    request: LeaveGroupRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    if not request.group_id:
        return respond(token, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    members = leaving_members(request, info)
    if group is None:
        return respond(token, leave_response([(each, ErrorCode.UNKNOWN_MEMBER_ID) for each in members], info))
    outcome: GroupOutcome = Outcome(linearizable=True)
    results = [(each, _remove(shard, group, each, outcome)) for each in members]
    if any(code is ErrorCode.NONE for _, code in results):
        outcome.add(rebalance.member_left(shard, group, now_ms))
    return outcome.reply(token, leave_response(results, info))


def _remove(
    shard: ShardState, group: ClassicGroup, leaving: MemberIdentity, outcome: GroupOutcome
) -> ErrorCode:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if not member_id:
        holder = None if instance_id is None else group.static_members.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = holder
    elif member_id in group.pending_joins:
        group.pending_joins.remove(member_id)
        shard.timers.cancel(TimerKey(group.group_id, member_id, TimerKind.PENDING))
        return ErrorCode.NONE
    else:
        code = group.check_member(member_id, instance_id)
        if code is not ErrorCode.NONE:
            return code
    outcome.replies += rebalance.remove_member(shard, group, member_id)
    return ErrorCode.NONE
