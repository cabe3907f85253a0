"""A group whose type is not known. No request describes groups of every type, so one type is tried after the
other."""

from __future__ import annotations

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.group_descriptions import GroupDescription
from ruslo.model.errors import ErrorCode, KafkaError

_NOT_OF_THIS_TYPE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


async def describe_any(admin: Admin, group_id: str) -> GroupDescription | None:
    """The group, a ``StreamsGroupDescription`` if it is one; None if it does not exist."""
    for describe in (admin.groups.describe, admin.share_groups.describe, admin.streams_groups.describe):
        found: GroupDescription | KafkaError = (await describe([group_id]))[group_id]
        if isinstance(found, GroupDescription):
            return found
        if found.code not in _NOT_OF_THIS_TYPE:
            raise found
    return None
