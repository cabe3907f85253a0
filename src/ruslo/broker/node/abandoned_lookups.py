"""Keeps abandoned name lookups out of the log.

When a connection attempt is cancelled while uvloop still resolves the host name, the lookup continues. If it
fails, asyncio reports an exception that was never retrieved. In a container network the name of a node
vanishes with it, so attempts to reach it end that way; the caller has already logged the failure.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any


def forget_abandoned_lookups(loop: asyncio.AbstractEventLoop) -> None:
    loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # A task runs application code: only a bare future can be a lookup.
    future = context.get("future")
    if isinstance(context.get("exception"), socket.gaierror) and not isinstance(future, asyncio.Task):
        return
    loop.default_exception_handler(context)
