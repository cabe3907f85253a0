"""Shell completion of topic, group and profile names; empty if the cluster does not respond in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ruslo.client.admin.admin import Admin

_TIMEOUT_S = 1.0


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def names(admin: Admin) -> Iterable[str]:
        return [topic.name for topic in await admin.topics.list() if not topic.internal or incomplete]

    return _matching(_names(ctx, names), incomplete)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def names(admin: Admin) -> Iterable[str]:
        return [group.group_id for group in await admin.groups.list()]

    return _matching(_names(ctx, names), incomplete)


def complete_share_groups(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    async def names(admin: Admin) -> Iterable[str]:
        return [group.group_id for group in await admin.groups.list(types=("share",))]

    return _matching(_names(ctx, names), incomplete)


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ruslo.cli.arguments.profiles import ProfileStore

    return _matching(ProfileStore().names(), incomplete)


def _names(ctx: click.Context, query: Callable[[Admin], Awaitable[Iterable[str]]]) -> Iterable[str]:
    import asyncio

    from ruslo.cli.arguments.client_settings import channel_settings
    from ruslo.cli.arguments.options import default_bootstrap
    from ruslo.client.admin.admin import Admin
    from ruslo.model.errors import RusloError

    given = ctx.params.get("bootstrap")

    async def run() -> Iterable[str]:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            Admin(given or default_bootstrap(), settings=channel_settings()) as admin,
        ):
            return await query(admin)

    try:
        return asyncio.run(run())
    except (RusloError, OSError, TimeoutError, click.UsageError):
        return ()


def _matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
