"""ListGroups, DescribeGroups and DeleteGroups, for the groups of one shard.

ListGroups: v4 adds states and a filter by state (KIP-518); v5 adds types and a filter by type (KIP-848).
DescribeGroups: since v6 an absent group is an error, before it was Dead (KIP-1043). DeleteGroups: v3 adds
error messages (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.machines.groups.classic.describe import describe
from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.group import not_found
from ruslo.machines.groups.records import GroupRecord, offset_tombstone
from ruslo.machines.groups.state import ShardState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse

DEAD = "Dead"
NOT_FOUND_IS_ERROR_MIN_VERSION = 6


def list_groups(shard: ShardState, request: ListGroupsRequest) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    kinds = {kind.lower() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.kind,
            )
            for group in shard.groups.values()
            if (not states or group.state_name.lower() in states) and (not kinds or group.kind in kinds)
        ]
    )


def describe_groups(
    shard: ShardState, request: DescribeGroupsRequest, info: RequestInfo
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[_described(shard, group_id, info.api_version) for group_id in request.groups]
    )


def _described(shard: ShardState, group_id: str, api_version: int) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return describe(group)
    absent = DescribedGroup(group_id=group_id, group_state=DEAD)
    if api_version >= NOT_FOUND_IS_ERROR_MIN_VERSION:
        absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        absent.error_message = (
            not_found(group_id)
            if group is None
            else f"Group {group_id!r} is a {group.kind} group. Describe it with the API of that type."
        )
    return absent


def delete_groups(
    shard: ShardState, request: DeleteGroupsRequest, errors: Mapping[str, ErrorCode]
) -> tuple[list[GroupRecord], DeleteGroupsResponse]:
    """``errors``: groups that cannot be deleted."""
    records: list[GroupRecord] = []
    codes: dict[str, ErrorCode] = {}
    for group_id in request.groups_names:
        group = shard.groups.get(group_id)
        if group_id in errors:
            codes[group_id] = errors[group_id]
        elif group is None or group_id in codes:
            codes.setdefault(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        elif not group.is_empty:
            codes[group_id] = ErrorCode.NON_EMPTY_GROUP
        else:
            codes[group_id] = ErrorCode.NONE
            records += (
                offset_tombstone(group_id, topic, partition)
                for topic, partition in shard.offsets.partitions_of(group_id)
            )
            records += group.tombstones()
    results = [
        DeletableGroupResult(
            group_id=group_id, error_code=code, error_message=_delete_problem(group_id, code)
        )
        for group_id, code in codes.items()
    ]
    return records, DeleteGroupsResponse(results=results)


def _delete_problem(group_id: str, code: ErrorCode) -> str | None:
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return not_found(group_id)
    if code is ErrorCode.NON_EMPTY_GROUP:
        return f"Group {group_id!r} has members. Stop them before you delete the group"
    if code is not ErrorCode.NONE:
        return f"The state of share group {group_id!r} could not be deleted. Try again"
    return None
