"""GSSAPI (RFC 4752): Kerberos, through the library ``gssapi`` (the extra ``ruslo[kerberos]``).

After the Kerberos exchange the two sides negotiate a security layer. Kafka offers none, because TLS protects
the connection: the broker sends the octets ``01 00 00 00``, the client agrees with its user name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from ruslo.model.errors import ConfigError
from ruslo.net.sasl.mechanism import AuthenticationFailed, Identity

# The library has no types.
Credentials: TypeAlias = Any

_NO_SECURITY_LAYER = b"\x01\x00\x00\x00"
_LAYER = 1


@dataclass(slots=True)
class GssapiServer:
    credentials: Credentials
    """The service key of this broker, from its keytab."""
    user_of: Callable[[str], str]
    """Maps a Kerberos principal to a user by ``sasl.kerberos.principal.to.local.rules``."""
    identity: Identity | None = None
    _context: Any = None
    _offered: bool = False

    def respond(self, message: bytes) -> bytes:
        gssapi = library()
        try:
            if self._context is None:
                self._context = gssapi.SecurityContext(creds=self.credentials, usage="accept")
            if not self._context.complete:
                token: bytes | None = self._context.step(message)
                if token or not self._context.complete:
                    return token or b""
                return self._offer()
            return self._agree(message) if self._offered else self._offer()
        except gssapi.exceptions.GSSError as error:
            raise AuthenticationFailed(f"Kerberos refused the client: {error}") from None

    def _offer(self) -> bytes:
        self._offered = True
        wrapped: bytes = self._context.wrap(_NO_SECURITY_LAYER, False).message
        return wrapped

    def _agree(self, message: bytes) -> bytes:
        choice: bytes = self._context.unwrap(message).message
        if len(choice) < len(_NO_SECURITY_LAYER) or choice[0] != _LAYER:
            raise AuthenticationFailed("the client demands a Kerberos security layer; use TLS instead")
        principal = str(self._context.initiator_name)
        authorization_id = choice[len(_NO_SECURITY_LAYER) :].decode("utf-8", "replace")
        if authorization_id not in ("", principal, principal.partition("@")[0]):
            raise AuthenticationFailed(f"{principal} requested another authorization id")
        self.identity = Identity(self.user_of(principal))
        return b""


@dataclass(slots=True)
class GssapiClient:
    service: str
    """``sasl.kerberos.service.name``"""
    host: str
    credentials: Credentials = None
    """None: the tickets in the credential cache of this user."""
    complete: bool = False
    _context: Any = None

    def respond(self, challenge: bytes) -> bytes:
        gssapi = library()
        try:
            if self._context is None:
                name = gssapi.Name(f"{self.service}@{self.host}", gssapi.NameType.hostbased_service)
                self._context = gssapi.SecurityContext(
                    name=name,
                    creds=self.credentials,
                    usage="initiate",
                    flags=[gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity],
                )
            if not self._context.complete:
                token: bytes | None = self._context.step(challenge or None)
                return token or b""
            offer: bytes = self._context.unwrap(challenge).message
            if len(offer) != len(_NO_SECURITY_LAYER) or not offer[0] & _LAYER:
                raise AuthenticationFailed("the broker demands a Kerberos security layer; Kafka has none")
            self.complete = True
            answer: bytes = self._context.wrap(_NO_SECURITY_LAYER, False).message
            return answer
        except gssapi.exceptions.GSSError as error:
            raise AuthenticationFailed(f"Kerberos: {error}") from None


@cache
def library() -> Any:
    """The library, which is an optional extra. Raises ConfigError without it."""
    try:
        import gssapi
    except ImportError as error:
        raise ConfigError(
            "GSSAPI (Kerberos) needs the extra 'kerberos': install libkrb5-dev and 'ruslo[kerberos]'"
        ) from error
    return gssapi


def server_credentials(keytab: str, principal: str) -> Credentials:
    """The key with which this broker accepts clients. Raises ConfigError."""
    gssapi = library()
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    try:
        return gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab})
    except gssapi.exceptions.GSSError as error:
        raise ConfigError(
            f"The keytab {keytab} has no usable key of {principal} ({error}). Check principal and keyTab in "
            "sasl.jaas.config"
        ) from None


def client_credentials(keytab: str | None, principal: str | None) -> Callable[[], Credentials]:
    """Gets the credentials of a login, new ones when a ticket expires. Raises ConfigError."""
    gssapi = library()
    if keytab is None:
        return lambda: None
    name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    current: list[Any] = []

    def credentials() -> Credentials:
        # With a client keytab the library gets tickets itself, and new ones when they expire.
        if not current or current[0].lifetime <= 0:
            try:
                current[:] = [
                    gssapi.Credentials(
                        name=name, usage="initiate", store={"client_keytab": keytab, "ccache": "MEMORY:"}
                    )
                ]
            except gssapi.exceptions.GSSError as error:
                raise AuthenticationFailed(f"no Kerberos ticket for {principal}: {error}") from None
        return current[0]

    return credentials
