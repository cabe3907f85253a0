"""Runs the asynchronous admin client from a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin

T = TypeVar("T")


def with_admin(bootstrap: str, action: Callable[[Admin], Awaitable[T]]) -> T:
    """Run ``action`` with an admin client, and close the client.

    The command fails at once if no bootstrap server completes the handshake. Later requests are retried.
    """
    import asyncio

    from ruslo.cli.arguments.profiles import check_plain
    from ruslo.client.admin.admin import Admin
    from ruslo.client.wire.listener_probe import refuse_tls
    from ruslo.net.errors import ConnectionLost

    check_plain()

    async def run() -> T:
        async with Admin(bootstrap) as admin:
            try:
                await admin.cluster.any_connection()
            except ConnectionLost:
                refuse_tls(bootstrap)
                raise
            return await action(admin)

    return asyncio.run(run())
