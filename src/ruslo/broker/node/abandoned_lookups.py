"""Keeps name look-ups that nobody waits for any more out of the log.

When a connection attempt is given up while uvloop still looks up the host's name, the look-up goes on by
itself. If it fails in the end, asyncio complains of an exception that nobody has fetched. In a network of
containers the name of a node vanishes with it, and attempts to reach a node that is gone end that way;
whoever gave the attempt up has said so already.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any


def forget_abandoned_lookups(loop: asyncio.AbstractEventLoop) -> None:
    loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # A task has somebody's code in it: only a bare future can be a look-up.
    future = context.get("future")
    if isinstance(context.get("exception"), socket.gaierror) and not isinstance(future, asyncio.Task):
        return
    loop.default_exception_handler(context)
