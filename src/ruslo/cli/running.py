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

    from ruslo.cli.arguments.client_settings import channel_settings
    from ruslo.client.admin.admin import Admin
    from ruslo.client.wire.listener_probe import check_security_protocol
    from ruslo.net.errors import ConnectionLost

    settings = channel_settings()

    async def run() -> T:
        async with Admin(bootstrap, settings=settings) as admin:
            try:
                await admin.cluster.any_connection()
            except ConnectionLost:
                check_security_protocol(bootstrap, encrypted=settings.security.context is not None)
                raise
            return await action(admin)

    return asyncio.run(run())
