"""Heartbeat: renews the session, and tells a member to rejoin. v3: static members."""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.state import ShardState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.heartbeat_response import HeartbeatResponse


def handle(
    shard: ShardState, group: ClassicGroup | None, request: HeartbeatRequest, token: Hashable, now_ms: int
) -> GroupOutcome:
    return respond(token, HeartbeatResponse(error_code=_renew(shard, group, request, now_ms)))


def _renew(
    shard: ShardState, group: ClassicGroup | None, request: HeartbeatRequest, now_ms: int
) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.check_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    rebalance.renew_session(shard, group, group.members[request.member_id], now_ms)
    # Members may send heartbeats before the leader has sent the assignment.
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING else ErrorCode.NONE
