"""Who sits before a browser: a cookie, the token that forms carry, and logins by password.

A session is a random id in a cookie that scripts cannot read. The token of its forms is derived from it with
a secret of this process, so that nothing is stored for visitors; only those who have logged in are known.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time

_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{43}\Z")
_LOGIN_LASTS_S = 12 * 3600
_LOGINS_MAX = 1000
_WRONG_PASSWORD_PAUSE_S = 1.0
_WAITING_MAX = 10


class TooManyAttempts(Exception):
    """So many wrong passwords wait for their answer that no more are looked at."""


class Sessions:
    def __init__(self, password: str | None) -> None:
        self._password = None if password is None else _digest(password)
        self._secret = secrets.token_bytes(32)
        self._logins: dict[str, float] = {}
        self._guessing = asyncio.Lock()
        self._waiting = 0

    @property
    def needs_login(self) -> bool:
        return self._password is not None

    def new_id(self) -> str:
        return secrets.token_urlsafe(32)

    def is_id(self, text: str) -> bool:
        return _SESSION_ID.match(text) is not None

    def form_token(self, session_id: str) -> str:
        return hmac.new(self._secret, session_id.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, session_id: str, token: str) -> bool:
        return hmac.compare_digest(self.form_token(session_id).encode(), token.encode())

    def is_password(self, text: str) -> bool:
        return self._password is not None and hmac.compare_digest(self._password, _digest(text))

    def is_logged_in(self, session_id: str) -> bool:
        if not self.needs_login:
            return True
        until = self._logins.get(session_id)
        return until is not None and time.monotonic() < until

    async def log_in(self, password: str) -> str | None:
        """A new session if the password is right: an id from before the login is worth nothing after it."""
        if not self.is_password(password):
            await self.pause()
            return None
        now = time.monotonic()
        self._logins = {known: until for known, until in self._logins.items() if until > now}
        while len(self._logins) >= _LOGINS_MAX:
            del self._logins[next(iter(self._logins))]
        session_id = self.new_id()
        self._logins[session_id] = now + _LOGIN_LASTS_S
        return session_id

    def log_out(self, session_id: str) -> None:
        self._logins.pop(session_id, None)

    async def pause(self) -> None:
        """After a wrong password: one guess in a second, whoever makes them."""
        if self._waiting >= _WAITING_MAX:
            raise TooManyAttempts
        self._waiting += 1
        try:
            async with self._guessing:
                await asyncio.sleep(_WRONG_PASSWORD_PAUSE_S)
        finally:
            self._waiting -= 1


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
