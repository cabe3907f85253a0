"""Browser sessions: a cookie, form tokens, and logins.

A session is a random id in a cookie that scripts cannot read. Its form token is derived from the id with a
secret of this process, so only logged-in sessions are stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable

from ruslo.console.password_attempts import PasswordAttempts

_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{43}\Z")
_LOGIN_DURATION_S = 12 * 3600
_LOGINS_MAX = 1000


class Sessions:
    def __init__(self, password: str | None, *, by_user: bool = False) -> None:
        """``by_user``: users of the cluster log in, and the console itself has no password."""
        self._password = None if password is None else _digest(password)
        self._by_user = by_user
        self._secret = secrets.token_bytes(32)
        self._logins: dict[str, float] = {}
        self._end_reasons: dict[str, str] = {}
        """Why sessions ended that their users did not end, the oldest first."""
        self._attempts = PasswordAttempts()

    @property
    def needs_login(self) -> bool:
        return self._password is not None or self._by_user

    @property
    def has_password(self) -> bool:
        return self._password is not None

    def new_id(self) -> str:
        return secrets.token_urlsafe(32)

    def is_id(self, text: str) -> bool:
        return _SESSION_ID.match(text) is not None

    def form_token(self, session_id: str) -> str:
        return hmac.new(self._secret, session_id.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, session_id: str, token: str) -> bool:
        return hmac.compare_digest(self.form_token(session_id).encode(), token.encode())

    async def is_password(self, text: str, address: str) -> bool:
        """Check the console's password, after a queue; raises TooManyAttempts if the queue is full."""

        async def check() -> bool:
            return self._password is not None and hmac.compare_digest(self._password, _digest(text))

        return await self._attempt(check, address)

    async def _attempt(self, check: Callable[[], Awaitable[bool]], address: str) -> bool:
        clock = asyncio.get_running_loop()
        correct = False
        delay_s = self._attempts.enter(address, clock.time())
        try:
            if delay_s > 0:
                await asyncio.sleep(delay_s)
            correct = await check()
        finally:
            self._attempts.leave(address, correct=correct, now=clock.time())
        return correct

    def is_logged_in(self, session_id: str) -> bool:
        if not self.needs_login:
            return True
        until = self._logins.get(session_id)
        return until is not None and time.monotonic() < until

    async def log_in(self, password: str, address: str) -> str | None:
        """A new session id if the password is correct, so an id from before the login stays useless."""
        return self._add_login() if await self.is_password(password, address) else None

    async def log_in_user(self, check: Callable[[], Awaitable[bool]], address: str) -> str | None:
        """As ``log_in``, for a user whose password ``check`` checks."""
        return self._add_login() if await self._attempt(check, address) else None

    def _add_login(self) -> str:
        now = time.monotonic()
        self._logins = {known: until for known, until in self._logins.items() if until > now}
        while len(self._logins) >= _LOGINS_MAX:
            del self._logins[next(iter(self._logins))]
        session_id = self.new_id()
        self._logins[session_id] = now + _LOGIN_DURATION_S
        return session_id

    def log_out(self, session_id: str, reason: str | None = None) -> None:
        """``reason``: for the next login page, if the user did not end the session."""
        if self._logins.pop(session_id, None) is None or reason is None:
            return
        self._end_reasons[session_id] = reason
        while len(self._end_reasons) > _LOGINS_MAX:
            del self._end_reasons[next(iter(self._end_reasons))]

    def end_reason(self, session_id: str) -> str | None:
        return self._end_reasons.get(session_id)


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
