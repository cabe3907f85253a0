"""Checks access tokens (JWT) of OAUTHBEARER clients: signature, issuer, audience, times, scope and user.

Only asymmetric algorithms are accepted: with a symmetric one a public key could pass for the shared secret.
``alg: none`` is accepted only by ``UnsecuredTokenValidator``, for tests.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
_MAX_SECONDS = 1 << 53
"""Beyond this a JSON number is not exact."""


class SigningKeys(Protocol):
    """The public keys of the OAuth provider."""

    def find(self, key_id: str | None, algorithm: str) -> Collection[PyJWK]:
        """The keys that may have signed a token. Raises AuthenticationFailed if none is known."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What the claims of a token must be."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    """The token must name one of them; empty: any audience."""
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    required_scopes: frozenset[str] = frozenset()
    clock_skew_s: int = 30

    def check(self, claims: Mapping[str, Any], now_ms: int) -> Identity:
        """Return the user. Raises AuthenticationFailed, which names the claim."""
        now_s = now_ms / 1000
        expires_s = _time(claims, "exp", required=True)
        if now_s >= expires_s + self.clock_skew_s:
            raise AuthenticationFailed(f"the token expired {now_s - expires_s:.0f} s ago")
        for name, required in (("iat", True), ("nbf", False)):
            begins_s = _time(claims, name, required=required)
            if begins_s > now_s + self.clock_skew_s:
                raise AuthenticationFailed(
                    f"the token is not valid yet: {name} is {begins_s - now_s:.0f} s ahead"
                )
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise AuthenticationFailed(f"the token's issuer is not {self.issuer}")
        if self.audiences and not set(self.audiences) & set(_texts(claims, "aud")):
            raise AuthenticationFailed(f"the token's audience is none of {', '.join(self.audiences)}")
        scopes = {scope for text in _texts(claims, self.scope_claim) for scope in text.split()}
        missing = self.required_scopes - scopes
        if missing:
            raise AuthenticationFailed(f"the token lacks the scope {', '.join(sorted(missing))}")
        user = claims.get(self.sub_claim)
        if not isinstance(user, str) or not user.strip():
            raise AuthenticationFailed(f"the token's claim {self.sub_claim} does not name a user")
        return Identity(user.strip(), expires_at_ms=int(expires_s * 1000))


@dataclass(frozen=True, slots=True)
class TokenValidator:
    keys: SigningKeys
    rules: ClaimRules
    now_ms: Callable[[], int]

    def __call__(self, token: Secret) -> Identity:
        return self.rules.check(verified_claims(token, self.keys), self.now_ms())


def verified_claims(token: Secret, keys: SigningKeys) -> Mapping[str, Any]:
    """The claims of a token whose signature is right. Raises AuthenticationFailed."""
    from jwt import InvalidTokenError, PyJWS

    jws = PyJWS()
    try:
        header = jws.get_unverified_header(token.reveal())
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise AuthenticationFailed(
                f"the token is signed with {algorithm!r}; use one of {', '.join(ALGORITHMS)}"
            )
        for key in keys.find(key_id, algorithm):
            if (payload := _verified(jws, token, key, algorithm)) is not None:
                return _claims(payload)
    except (InvalidTokenError, UnicodeError) as error:
        raise AuthenticationFailed(f"the token is not a valid JWT: {error}") from None
    except RecursionError:
        raise AuthenticationFailed("the token's header is nested too deeply") from None
    raise AuthenticationFailed("the signature of the token is wrong")


def _verified(jws: Any, token: Secret, key: PyJWK, algorithm: str) -> bytes | None:
    """The payload of the token if the key signed it."""
    from jwt import InvalidSignatureError

    try:
        payload: bytes = jws.decode(token.reveal(), key, algorithms=[algorithm])
    except InvalidSignatureError:
        return None
    return payload


@dataclass(frozen=True, slots=True)
class UnsecuredTokenValidator:
    """Accepts tokens without a signature: every client may claim to be any user. For tests only."""

    rules: ClaimRules
    now_ms: Callable[[], int]

    def __call__(self, token: Secret) -> Identity:
        parts = token.reveal().split(".")
        if len(parts) != 3 or parts[2]:
            raise AuthenticationFailed("the token is not an unsecured JWT: it has a signature")
        header = _claims(_base64url(parts[0]))
        if header.get("alg") != "none":
            raise AuthenticationFailed("the token is not an unsecured JWT: alg is not none")
        return self.rules.check(_claims(_base64url(parts[1])), self.now_ms())


def _base64url(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationFailed("the token is not base64url") from None


def _claims(payload: bytes) -> Mapping[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise AuthenticationFailed("the token does not hold a JSON object")
    return claims


def _time(claims: Mapping[str, Any], name: str, *, required: bool) -> float:
    value = claims.get(name)
    if value is None and not required:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MAX_SECONDS:
        raise AuthenticationFailed(f"the token's claim {name} is not a time in seconds")
    return value


def _texts(claims: Mapping[str, Any], name: str) -> list[str]:
    """A claim that is a text or an array of texts."""
    value = claims.get(name)
    texts = value if isinstance(value, list) else [] if value is None else [value]
    return [text for text in texts if isinstance(text, str)]
