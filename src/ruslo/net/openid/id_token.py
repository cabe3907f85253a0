"""Checks the claims of an ID token (OpenID Connect Core, 3.1.3.7 and 12.2)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ruslo.net.sasl.access_tokens import ClaimRules
from ruslo.net.sasl.mechanism import AuthenticationFailed

_NAME_CLAIMS = ("preferred_username", "email", "name", "sub")


class Person(NamedTuple):
    subject: str
    """The person's id at the provider."""
    name: str
    """The name to show."""


@dataclass(frozen=True, slots=True)
class IdTokenRules:
    """What the claims must be, after the signature was checked."""

    issuer: str
    client_id: str
    nonce: str | None = None
    """The nonce of the log-in; None for a token of a renewal, which needs none."""
    subject: str | None = None
    """The person of the session that is renewed."""

    def check(self, claims: Mapping[str, Any], now_ms: int) -> Person:
        """Raises AuthenticationFailed, which names the claim."""
        found = ClaimRules(issuer=self.issuer, audiences=(self.client_id,)).check(claims, now_ms)
        audience = claims.get("aud")
        party = claims.get("azp")
        names_party = party is not None or (isinstance(audience, list) and len(audience) > 1)
        # Otherwise the token may have been issued to another client of the provider.
        if names_party and party != self.client_id:
            raise AuthenticationFailed(f"the token's authorized party is not {self.client_id}")
        if self.nonce is not None:
            nonce = claims.get("nonce")
            if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), self.nonce.encode()):
                raise AuthenticationFailed("the token's nonce is not that of this log-in")
        if self.subject not in (None, found.user):
            raise AuthenticationFailed("the token is of another person")
        names = (claims.get(each) for each in _NAME_CLAIMS)
        return Person(found.user, next(each for each in names if isinstance(each, str) and each.strip()))
