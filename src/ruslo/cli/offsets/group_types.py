"""Groups of another type than the command is for: the message names the command that fits."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.group_descriptions import GroupDescription

T = TypeVar("T")

_NOUNS = {"share": "share", "classic": "group", "consumer": "group", "streams": "group"}


async def or_name_the_command(admin: Admin, group_id: str, verb: str, work: Awaitable[T]) -> T:
    """The result of ``work``. If it finds no group, but one of another type exists, advise its command."""
    from ruslo.client.views.group_types import describe_any
    from ruslo.model.errors import ErrorCode, KafkaError

    try:
        return await work
    except KafkaError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            refuse(await describe_any(admin, group_id), verb)
        raise


def refuse(group: GroupDescription | None, verb: str) -> None:
    """Fail if the group exists: its type is not one that the command is for. ``verb`` is the command's."""
    if group is not None:
        name, noun = group.group_id, _NOUNS[group.type]
        raise click.ClickException(f"{name!r} is a {group.type} group. Use 'ruslo {noun} {verb} {name}'.")


async def refuse_share_groups(admin: Admin, group_ids: Sequence[str], verb: str) -> None:
    """Fail if one of the groups is a share group."""
    from ruslo.client.admin.group_descriptions import GroupDescription

    for found in (await admin.share_groups.describe(group_ids)).values():
        if isinstance(found, GroupDescription):
            refuse(found, verb)
