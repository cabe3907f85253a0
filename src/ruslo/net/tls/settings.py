"""Kafka's ``ssl.*`` settings of one listener or one client, as plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ruslo.model.secret import Secret


class ClientAuth(enum.Enum):
    """``ssl.client.auth``"""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A key store or a trust store: a file, or PEM text in the settings themselves."""

    type: str = "JKS"
    location: str | None = None
    password: Secret | None = None
    key: Secret | None = None
    """A private key as PEM text; of a key store only."""
    certificates: Secret | None = None
    """Certificates as PEM text: the chain of a key store, or the trusted ones."""

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.certificates is not None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    key_store: StoreSettings = StoreSettings()
    trust_store: StoreSettings = StoreSettings()
    key_password: Secret | None = None
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_auth: ClientAuth = ClientAuth.NONE
    verify_host_name: bool = True
    """``ssl.endpoint.identification.algorithm`` is ``https``."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the settings name."""
        return tuple(
            each.location for each in (self.key_store, self.trust_store) if each.location is not None
        )
