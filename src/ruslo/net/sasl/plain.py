"""PLAIN (RFC 4616): user and password as they are. Use it over TLS only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ruslo.model.secret import Secret
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity

_INVALID = "Authentication failed: Invalid username or password"
_FIELDS = 3


@dataclass(slots=True)
class PlainServer:
    password_of: Callable[[str], Secret | None]
    """The password of a user; None if the user is unknown."""
    identity: Identity | None = None

    def respond(self, message: bytes) -> bytes:
        try:
            fields = message.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("the PLAIN message is not UTF-8") from None
        if len(fields) != _FIELDS:
            raise AuthenticationFailed(f"the PLAIN message has {len(fields)} fields instead of {_FIELDS}")
        authorization_id, user, password = fields
        if not user or not password:
            missing = "password" if user else "username"
            raise AuthenticationFailed(
                f"the {missing} is empty", f"Authentication failed: {missing} not specified"
            )
        expected = self.password_of(user)
        # An unknown user costs a comparison, too: the time must not tell which users exist.
        matches = Secret(password) == (expected or Secret("\0"))
        if expected is None or not matches:
            raise AuthenticationFailed(f"unknown user {user!r} or wrong password", _INVALID)
        if authorization_id not in ("", user):
            raise AuthenticationFailed(
                f"user {user!r} requested another authorization id",
                "Authentication failed: Client requested an authorization id that is different from username",
            )
        self.identity = Identity(user)
        return b""


@dataclass(slots=True)
class PlainClient:
    user: str
    password: Secret
    complete: bool = False

    def respond(self, challenge: bytes) -> bytes:
        self.complete = True
        return f"\0{self.user}\0{self.password.reveal()}".encode()
