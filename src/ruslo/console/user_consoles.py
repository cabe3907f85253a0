"""The consoles of users of the cluster: one for each login, closed by log-out, idleness or a newer login.

A console holds the password or the tokens of its user in memory, in the login of its connections, as long as
it is open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

MAX_USERS = 100
IDLE_TIMEOUT_S = 30 * 60.0
_CHECK_INTERVAL_S = 30.0
_IDLE_REASON = "You were logged out after 30 minutes without a request."


class Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class UserConsoles(Generic[C]):
    def __init__(self, on_close: Callable[[str, str | None], None]) -> None:
        """``on_close`` ends the session whose console is closed, with the reason if the user did not ask."""
        self._on_close = on_close
        self._consoles: dict[str, C] = {}
        """By session id, the one that was idle longest first."""
        self._used_s: dict[str, float] = {}
        self._lifetimes: dict[str, asyncio.Task[None]] = {}

    def of(self, session_id: str) -> C | None:
        console = self._consoles.pop(session_id, None)
        if console is not None:
            self._consoles[session_id] = console
            self._used_s[session_id] = time.monotonic()
        return console

    async def add(
        self, session_id: str, console: C, until_end: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        """``until_end`` returns, with the reason, when the user can no longer use the cluster."""
        self._consoles[session_id] = console
        self._used_s[session_id] = time.monotonic()
        if until_end is not None:
            self._lifetimes[session_id] = asyncio.create_task(self._close_at_end(session_id, until_end))
        while len(self._consoles) > MAX_USERS:
            await self.close(next(iter(self._consoles)))

    async def _close_at_end(self, session_id: str, until_end: Callable[[], Awaitable[str]]) -> None:
        reason = await until_end()
        self._lifetimes.pop(session_id, None)
        await self.close(session_id, reason)

    async def close(self, session_id: str, reason: str | None = None) -> None:
        lifetime = self._lifetimes.pop(session_id, None)
        if lifetime is not None:
            lifetime.cancel()
            await asyncio.gather(lifetime, return_exceptions=True)
        self._on_close(session_id, reason)
        self._used_s.pop(session_id, None)
        console = self._consoles.pop(session_id, None)
        if console is not None:
            await console.close()

    async def close_idle(self, now_s: float) -> None:
        for session_id, used_s in list(self._used_s.items()):
            if now_s - used_s >= IDLE_TIMEOUT_S:
                await self.close(session_id, _IDLE_REASON)

    async def close_all(self) -> None:
        for session_id in list(self._consoles):
            await self.close(session_id)

    async def run(self) -> None:
        """Close idle consoles for ever."""
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            await self.close_idle(time.monotonic())
