from __future__ import annotations

import asyncio
import time

import pytest

from ruslo.console import user_consoles
from ruslo.console.user_consoles import IDLE_TIMEOUT_S, UserConsoles


class Closed:
    """A console that notes whether it was closed."""

    is_closed = False

    async def close(self) -> None:
        self.is_closed = True


async def test_logout_idleness_and_newer_logins_close_a_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_consoles, "MAX_USERS", 2)
    ended: list[str] = []
    consoles: UserConsoles[Closed] = UserConsoles(lambda session_id, reason: ended.append(session_id))
    a, b, c = Closed(), Closed(), Closed()
    await consoles.add("a", a)
    await consoles.add("b", b)
    assert consoles.of("a") is a
    await consoles.add("c", c)
    assert (b.is_closed, ended) == (True, ["b"]), "b was idle longest"
    await consoles.close("a")
    assert (a.is_closed, consoles.of("a")) == (True, None)
    await consoles.close_idle(time.monotonic())
    assert not c.is_closed
    await consoles.close_idle(time.monotonic() + IDLE_TIMEOUT_S)
    assert (c.is_closed, ended) == (True, ["b", "a", "c"])


async def test_a_console_ends_with_the_login_of_its_user() -> None:
    ended: dict[str, str | None] = {}
    consoles: UserConsoles[Closed] = UserConsoles(
        lambda session_id, reason: ended.update({session_id: reason})
    )
    over, is_over = asyncio.Event(), asyncio.Event()

    class Expired(Closed):
        async def close(self) -> None:
            is_over.set()

    expired, closed = Expired(), Closed()

    async def until_end() -> str:
        await over.wait()
        return "Your access token has expired."

    await consoles.add("expired", expired, until_end)
    await consoles.add("closed", closed, until_end)
    await consoles.close("closed")
    over.set()
    await is_over.wait()
    assert ended == {"closed": None, "expired": "Your access token has expired."}
    assert consoles.of("expired") is None
