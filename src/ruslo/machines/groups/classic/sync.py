"""SyncGroup: the leader sends the assignment, and every member receives its part.

v3: static members. v5: protocol type and name, which must be those of the group (KIP-559).
"""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState, group_error
from ruslo.machines.groups.classic.member import ParkedRequest
from ruslo.machines.groups.classic.responses import sync_response
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.state import ShardState
from ruslo.machines.machine import Instant, Outcome, Reply
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse

PROTOCOL_REQUIRED_MIN_VERSION = 5


def lacks_protocol(request: SyncGroupRequest, api_version: int) -> bool:
    return api_version >= PROTOCOL_REQUIRED_MIN_VERSION and (
        request.protocol_type is None or request.protocol_name is None
    )


def check(request: SyncGroupRequest, info: RequestInfo) -> ErrorCode:
    """The error of a request that is invalid for any group."""
    if lacks_protocol(request, info.api_version):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def handle(
    shard: ShardState,
    group: ClassicGroup | None,
    request: SyncGroupRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    code = check(request, info)
    if code is ErrorCode.NONE:
        code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _check(group, request)
    if code is not ErrorCode.NONE or group is None:
        return respond(token, SyncGroupResponse(error_code=code))
    member = group.members[request.member_id]
    rebalance.member_synced(shard, group, member)
    if group.state is ClassicState.STABLE:
        rebalance.renew_session(shard, group, member, now_ms)
        return respond(token, sync_response(group, member))
    outcome: GroupOutcome = Outcome(linearizable=True)
    if member.sync is not None:
        # The member has given up its earlier request, but its connection may still be open.
        outcome.reply(member.sync.token, group_error(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id))
    member.sync = ParkedRequest(token, info.api_version)
    if group.leader == request.member_id:
        outcome.add(_assign(shard, group, request, now_ms))
    return outcome


def _check(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    code = group.check_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.protocol is not None and request.protocol_name not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _assign(shard: ShardState, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> GroupOutcome:
    """Store the leader's assignment, which makes the group Stable."""
    assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
    for member in group.members.values():
        # Members that the leader has omitted get no partitions in this generation.
        member.assignment = assignments.get(member.member_id, b"")
    outcome: GroupOutcome = Outcome(records=[group.to_record()])
    for member in group.members.values():
        if member.sync is not None:
            outcome.replies.append(Reply(member.sync.token, sync_response(group, member)))
            member.sync = None
            rebalance.renew_session(shard, group, member, now_ms)
    group.move_to(ClassicState.STABLE, shard.wall_ms)
    generation = group.generation

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        if group.generation != generation or group.state is not ClassicState.STABLE:
            return Outcome()
        for member in group.members.values():
            member.assignment = b""
        return rebalance.prepare(shard, group, now.monotonic_ms)

    outcome.on_failure = on_failure
    return outcome
