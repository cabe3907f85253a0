"""The responses to JoinGroup and SyncGroup."""

from __future__ import annotations

from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.classic.member import ClassicMember
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from ruslo.protocol.messages.sync_group_response import SyncGroupResponse

PROTOCOL_NAME_NULLABLE_MIN_VERSION = 7


def join_error(code: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code,
        generation_id=-1,
        protocol_name=None if api_version >= PROTOCOL_NAME_NULLABLE_MIN_VERSION else "",
        member_id=member_id,
    )


def join_response(
    group: ClassicGroup, member: ClassicMember, *, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The new generation; only the leader's response lists the members.

    ``leader``: respond with this leader, which is not the leader any more.
    """
    leads = leader is None and group.leader == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment and leads,
        member_id=member.member_id,
        members=[_listed(group, each) for each in group.members.values()] if leads else [],
    )


def sync_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def _listed(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        metadata=member.metadata(group.protocol),
    )
