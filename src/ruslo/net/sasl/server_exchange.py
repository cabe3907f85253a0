"""The order in which a client authenticates on a SASL listener (KIP-43, KIP-152).

::

    ApiVersions (optional) -> SaslHandshake, which chooses the mechanism -> SaslAuthenticate, until complete

After that, SaslHandshake and SaslAuthenticate authenticate again, before the session expires (KIP-368). The
mechanism and the principal stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.principals import USER, Principal
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity, ServerMechanism, ServerMechanismKind

MAX_HANDSHAKE_BYTES = 4 * 1024
"""The largest request before a mechanism is chosen: ApiVersions or SaslHandshake."""
MIN_REAUTHENTICATION_INTERVAL_MS = 1000
"""As in Kafka: a client must not keep the broker busy with authentications."""


@dataclass(slots=True)
class Authenticated:
    principal: Principal
    session_ms: int
    """The client must authenticate again within this time; 0: no limit."""


class ServerExchange:
    """The SASL state of one connection."""

    def __init__(self, mechanisms: Mapping[str, ServerMechanismKind]) -> None:
        self._mechanisms = mechanisms
        self._kind: ServerMechanismKind | None = None
        self._mechanism: ServerMechanism | None = None
        self._authenticated: Authenticated | None = None
        self._reauthenticated_ms: int | None = None
        """When the client last began to authenticate again."""
        self.identity: Identity | None = None
        """The client; None until it is authenticated."""

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms of this listener."""
        return list(self._mechanisms)

    @property
    def mechanism_name(self) -> str:
        return "" if self._kind is None else self._kind.name

    @property
    def awaits_token(self) -> bool:
        """Whether the client has chosen a mechanism and is not authenticated yet."""
        return self._mechanism is not None and self._authenticated is None

    @property
    def blocking(self) -> bool:
        """Whether ``authenticate`` must run in a thread."""
        return self._kind is not None and self._kind.blocking

    @property
    def max_message_bytes(self) -> int:
        return MAX_HANDSHAKE_BYTES if self._kind is None else self._kind.max_message_bytes

    def may_begin(self, now_ms: int) -> bool:
        """Whether SaslHandshake is accepted now, and if so, remember the time.

        As in Kafka, a client authenticates again only if its session ends, and once in a second.
        """
        if self._authenticated is None:
            return True
        last_ms = self._reauthenticated_ms
        if not self._authenticated.session_ms or (
            last_ms is not None and now_ms - last_ms < MIN_REAUTHENTICATION_INTERVAL_MS
        ):
            return False
        self._reauthenticated_ms = now_ms
        return True

    def choose(self, mechanism: str) -> None:
        """Begin to authenticate, or to authenticate again. Raises KafkaError."""
        kind = self._mechanisms.get(mechanism)
        if kind is None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"This listener does not support the SASL mechanism {mechanism!r}. Use one of "
                f"{', '.join(self._mechanisms)}",
            )
        if self.awaits_token:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "A SASL mechanism is chosen already")
        if self._authenticated is not None and kind is not self._kind:
            raise KafkaError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self.mechanism_name}'",
            )
        self._kind = kind
        self._mechanism = kind.new()

    def authenticate(self, message: bytes, now_ms: int) -> tuple[bytes, Authenticated | None]:
        """Return the response to the client and, if the exchange is complete, its result.

        Raises AuthenticationFailed; KafkaError if the client has not chosen a mechanism.
        """
        kind, mechanism = self._kind, self._mechanism
        if kind is None or mechanism is None:
            raise KafkaError(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate was received before SaslHandshake"
            )
        response = mechanism.respond(message)
        identity = mechanism.identity
        if identity is None:
            return response, None
        self._mechanism = None
        self.identity = identity
        principal = Principal(USER, identity.user, identity.token_id is not None)
        before = self._authenticated
        if before is not None and before.principal != principal:
            raise AuthenticationFailed(
                f"{before.principal} authenticated again as {principal}",
                f"Cannot change principals during re-authentication from {before.principal.type}."
                f"{before.principal.name}: {principal.type}.{principal.name}",
            )
        self._authenticated = Authenticated(principal, _session_ms(kind, identity.expires_at_ms, now_ms))
        return response, self._authenticated


def _session_ms(kind: ServerMechanismKind, expires_at_ms: int | None, now_ms: int) -> int:
    limits = [kind.max_session_ms] if kind.max_session_ms > 0 else []
    if expires_at_ms is not None:
        # A session of 0 would have no limit, so a credential that expires just now still has one.
        limits.append(max(expires_at_ms - now_ms, 1))
    return min(limits, default=0)
