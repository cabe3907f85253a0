"""What the pages of all types of groups have in common."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from ruslo.client.admin.group_descriptions import GroupDescription, GroupMember
from ruslo.client.views.group_types import describe_any
from ruslo.client.views.partition_lists import shown_by_topic
from ruslo.console.console import Console
from ruslo.model.errors import ErrorCode, KafkaError

UPDATE_INTERVAL_S = 3.0
UPDATE_TIMEOUT_S = 10.0
MEMBERS_MAX = 200


def group_of(request: Request) -> str:
    """The group id, from the query: it may contain slashes."""
    return request.query_params.get("id", "")


async def found_group(console: Console, group_id: str) -> GroupDescription:
    """The group, of any type."""
    found = await describe_any(console.admin, group_id)
    if found is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
    return found


def shown_members(members: Sequence[GroupMember]) -> list[tuple[GroupMember, list[tuple[str, str]] | None]]:
    """The first members with their assigned partitions by topic; None if those cannot be decoded."""
    return [
        (member, None if member.assignment is None else shown_by_topic(member.assignment))
        for member in members[:MEMBERS_MAX]
    ]


def members_left(members: Sequence[GroupMember]) -> int:
    """The number of members that a page does not show."""
    return max(0, len(members) - MEMBERS_MAX)
