"""The contract of a SASL mechanism, on both sides of a connection: bytes in, bytes out, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, GSSAPI)


class AuthenticationFailed(Exception):
    """The peer could not be authenticated.

    ``reason`` is for the log of this side. ``public`` is what the peer may know: None stands for the text
    that is the same for an unknown user, a wrong password and a malformed message.
    """

    def __init__(self, reason: str, public: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.public = public


class Identity(NamedTuple):
    """The client that a mechanism has authenticated."""

    user: str
    token_id: str | None = None
    """The delegation token that the client logged in with."""
    expires_at_ms: int | None = None
    """When the credential expires, in milliseconds since the Unix epoch."""


class ServerMechanism(Protocol):
    """One authentication of a client."""

    @property
    def identity(self) -> Identity | None:
        """The client; None while the exchange is not complete."""
        ...

    def respond(self, message: bytes) -> bytes:
        """Return the next challenge, or the end of the exchange. Raises AuthenticationFailed."""
        ...


class ClientMechanism(Protocol):
    """One authentication to a broker."""

    @property
    def complete(self) -> bool: ...

    def respond(self, challenge: bytes) -> bytes:
        """Return the next message; ``challenge`` is empty at first. Raises AuthenticationFailed."""
        ...


NewServer: TypeAlias = Callable[[], ServerMechanism]
"""Makes the mechanism object of one connection."""


class ServerMechanismKind(NamedTuple):
    """A mechanism as a listener offers it."""

    name: str
    new: NewServer
    max_message_bytes: int
    """The largest message of a client, which is not authenticated yet."""
    max_session_ms: int = 0
    """``connections.max.reauth.ms``: a client authenticates again within this time; 0: no limit."""
    blocking: bool = False
    """``respond`` may block, for files or for seconds of computation: it runs in a thread."""
