"""The tokens of a person who logged in at the identity provider: kept in memory only, and renewed in time."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from ruslo.model.clock import Clock
from ruslo.model.secret import Secret
from ruslo.net.openid.errors import OpenIdError, ProviderUnreachable
from ruslo.net.openid.id_token import Person
from ruslo.net.openid.tokens import Tokens
from ruslo.net.sasl.mechanism import AuthenticationFailed

RENEW_AFTER = 0.8
"""The part of its lifetime after which a token is renewed."""
_RETRY_INTERVAL_S = 5.0
_log = logging.getLogger(__name__)


class Renewer(Protocol):
    def renew(self, tokens: Tokens, person: Person) -> Tokens:
        """Raises OpenIdError. Blocks."""
        ...


class TokenSession:
    def __init__(self, renewer: Renewer, person: Person, tokens: Tokens, clock: Clock) -> None:
        self._renewer = renewer
        self._person = person
        self._tokens = tokens
        self._clock = clock

    def token(self) -> Secret:
        """The current access token, for the log-in of connections."""
        if self._remaining_s() <= 0:
            raise AuthenticationFailed("your access token has expired. Log in again")
        return self._tokens.access

    async def until_end(self) -> str:
        """Renew the token as long as possible; returns why the session ends."""
        while True:
            if self._tokens.expires_at_ms is None:
                await asyncio.Event().wait()  # The cluster rejects the token when it expires.
            if self._tokens.refresh is None:
                await asyncio.sleep(max(self._remaining_s(), 0))
                return "Your access token has expired, and the identity provider gave no refresh token."
            await asyncio.sleep(max(self._renewal_delay_s(), 0))
            problem = await self._renew()
            if problem is not None:
                await asyncio.sleep(max(self._remaining_s(), 0))
                return f"Your access token has expired and could not be renewed. {problem}."

    async def _renew(self) -> str | None:
        """Replace the tokens; returns why it is not possible."""
        while True:
            try:
                self._tokens = await asyncio.to_thread(self._renewer.renew, self._tokens, self._person)
                return None
            except ProviderUnreachable as error:
                # Another attempt may succeed, as long as the token is valid.
                if self._remaining_s() <= _RETRY_INTERVAL_S:
                    return str(error)
                _log.debug("cannot renew an access token: %s", error)
                await asyncio.sleep(_RETRY_INTERVAL_S)
            except OpenIdError as error:
                return str(error)

    def _remaining_s(self) -> float:
        expires_at_ms = self._tokens.expires_at_ms
        return float("inf") if expires_at_ms is None else (expires_at_ms - self._clock.now_ms()) / 1000

    def _renewal_delay_s(self) -> float:
        assert self._tokens.expires_at_ms is not None, "a token without expiry is not renewed"
        lifetime_ms = self._tokens.expires_at_ms - self._tokens.issued_at_ms
        return (self._tokens.issued_at_ms + lifetime_ms * RENEW_AFTER - self._clock.now_ms()) / 1000
