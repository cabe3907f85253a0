"""Log-ins at the identity provider that browsers have begun.

A browser keeps its attempt in a cookie, which only this process can make. State, nonce and PKCE verifier are
derived from the cookie with a secret, so attempts need no memory: clients cannot exhaust it. Each attempt
ends once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import NamedTuple

from ruslo.model.clock import Clock
from ruslo.net.openid.authorization import Authorization

DURATION_S = 600
_NEXT_MAX_CHARS = 1000
_ENDED_MAX = 10_000


class LoginAttempt(NamedTuple):
    authorization: Authorization
    after: str
    """The page to show after the login."""


class LoginAttempts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._ended: dict[str, None] = {}
        """The cookies of attempts that ended, the oldest first. The provider rejects old codes, too."""

    def begin(self, after: str) -> tuple[str, LoginAttempt]:
        """The value of the cookie, and the attempt."""
        if len(after) > _NEXT_MAX_CHARS:
            after = "/"
        encoded = base64.urlsafe_b64encode(after.encode(errors="replace")).decode()
        value = f"{secrets.token_urlsafe(32)}.{self._clock.monotonic_ms() // 1000}.{encoded}"
        return f"{value}.{self._derive('cookie', value)}", self._attempt(value, after)

    def find(self, cookie: str) -> LoginAttempt | None:
        """The attempt of a cookie; None if it is not from this process, expired or ended."""
        value, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._derive("cookie", value).encode(), signature.encode()):
            return None
        _, begun_s, encoded = value.split(".")
        is_expired = self._clock.monotonic_ms() // 1000 - int(begun_s) > DURATION_S
        if is_expired or cookie in self._ended:
            return None
        return self._attempt(value, base64.urlsafe_b64decode(encoded).decode())

    def end(self, cookie: str) -> None:
        """The attempt succeeded or failed: it cannot be used again."""
        self._ended[cookie] = None
        while len(self._ended) > _ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def _attempt(self, value: str, after: str) -> LoginAttempt:
        parts = (self._derive(purpose, value) for purpose in ("state", "nonce", "verifier"))
        return LoginAttempt(Authorization(*parts), after)

    def _derive(self, purpose: str, value: str) -> str:
        digest = hmac.new(self._secret, f"{purpose} {value}".encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
