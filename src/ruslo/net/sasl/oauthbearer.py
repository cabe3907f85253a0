"""OAUTHBEARER (RFC 7628, KIP-255): a bearer token, which the broker checks.

::

    client                                         broker
    n,,^Aauth=Bearer TOKEN^A^A           ->
                                         <-        (empty), or the error as JSON
    ^A  (only after an error)            ->        the exchange fails

``^A`` is the byte 1. SASL extensions stand between the token and the last ``^A``; the broker ignores them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity

_SEPARATOR = "\x01"
_INVALID_TOKEN = '{"status":"invalid_token"}'
_INITIAL = re.compile(r"n,(?:a=((?:[^\0=,]|=2C|=3D)+))?,\x01((?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"(?i:bearer) +([-_~+/.a-zA-Z0-9]+=*)")


@dataclass(slots=True)
class OAuthBearerServer:
    validate: Callable[[Secret], Identity]
    """Checks a token and returns its user; raises AuthenticationFailed."""
    identity: Identity | None = None
    _refusal: str | None = None

    def respond(self, message: bytes) -> bytes:
        if self._refusal is not None:
            raise AuthenticationFailed(self._refusal, _INVALID_TOKEN)
        try:
            match = _INITIAL.fullmatch(message.decode())
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise AuthenticationFailed("the OAUTHBEARER message is malformed")
        pairs = dict(pair.split("=", 1) for pair in match[2].split(_SEPARATOR) if pair)
        token = _AUTH.fullmatch(pairs.get("auth", ""))
        if token is None:
            raise AuthenticationFailed("the OAUTHBEARER message has no bearer token")
        try:
            identity = self.validate(Secret(token[1]))
        except AuthenticationFailed as error:
            # The client acknowledges the error before the exchange fails.
            self._refusal = error.reason
            return _INVALID_TOKEN.encode()
        if match[1] is not None and match[1] != identity.user:
            raise AuthenticationFailed(
                f"{identity.user!r} requested another authorization id",
                "Authentication failed: Client requested an authorization id that is different from the "
                "token's principal name",
            )
        self.identity = identity
        return b""


@dataclass(slots=True)
class OAuthBearerClient:
    token: Secret
    extensions: dict[str, str] = field(default_factory=dict)
    complete: bool = False
    _sent: bool = False

    def respond(self, challenge: bytes) -> bytes:
        if not self._sent:
            self._sent = True
            pairs = {"auth": f"Bearer {self.token.reveal()}", **self.extensions}
            listed = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
            return f"n,,{_SEPARATOR}{listed}{_SEPARATOR}".encode()
        if challenge:
            # The broker waits for this byte before it ends the exchange.
            return _SEPARATOR.encode()
        self.complete = True
        return b""
