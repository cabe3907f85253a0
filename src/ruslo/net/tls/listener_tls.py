"""The TLS of a listener, whose certificates can be replaced while connections are open.

A replaced certificate must have the same distinguished name and at least the same alternative names, unless
``ssl.allow.dn.changes`` or ``ssl.allow.san.changes`` allow a change: clients could not verify the broker any
more. Open connections keep their keys.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.model.errors import ConfigError
from ruslo.model.principals import ANONYMOUS, USER, Principal
from ruslo.net.tls.contexts import client_context, server_context
from ruslo.net.tls.distinguished_names import subject_of
from ruslo.net.tls.errors import explain
from ruslo.net.tls.principal_mapping import PrincipalMapper
from ruslo.net.tls.settings import TlsSettings
from ruslo.net.tls.stores import KeyMaterial

_FileVersions: TypeAlias = tuple[tuple[int, int, int] | None, ...]
_MAX_ROUND_TRIPS = 10


@dataclass(frozen=True, slots=True)
class ReplacementRules:
    allow_dn_changes: bool = False
    allow_san_changes: bool = False


class ListenerTls:
    def __init__(
        self,
        settings: TlsSettings,
        mapper: PrincipalMapper,
        rules: ReplacementRules,
        *,
        trusts_itself: bool = False,
    ) -> None:
        """``trusts_itself``: brokers connect to this listener with the same stores, so these must fit.

        Raises ConfigError.
        """
        self._settings = settings
        self._mapper = mapper
        self._rules = rules
        self._trusts_itself = trusts_itself
        self._versions = _file_versions(settings)
        self.context, self._key = server_context(settings)
        self.client_context = client_context(settings)
        if trusts_itself:
            _check_trust(self.context, self.client_context)

    def principal_of(self, session: ssl.SSLObject) -> Principal:
        certificate = session.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        return Principal(USER, self._mapper.user_of(subject_of(certificate)))

    def check(self, settings: TlsSettings) -> None:
        """Raise ConfigError if these settings cannot replace the current ones."""
        self._load(settings)

    def replace(self, settings: TlsSettings) -> bool:
        """Use new settings, or files that have changed, for new connections; returns whether any has.

        Raises ConfigError; the current ones stay in use then.
        """
        versions = _file_versions(settings)
        if settings == self._settings and versions == self._versions:
            return False
        # Remembered even if the new files are invalid: one error is enough.
        self._versions = versions
        context, key, own_client = self._load(settings)
        self._settings, self.context, self._key, self.client_context = settings, context, key, own_client
        return True

    def replace_changed_files(self) -> bool:
        return self.replace(self._settings)

    def _load(self, settings: TlsSettings) -> tuple[ssl.SSLContext, KeyMaterial, ssl.SSLContext]:
        context, key = server_context(settings)
        own_client = client_context(settings)
        _check_replacement(self._key, key, self._rules)
        if self._trusts_itself:
            _check_trust(context, own_client)
        return context, key, own_client


def _file_versions(settings: TlsSettings) -> _FileVersions:
    """Inode, time and size of each file: an atomic replacement changes all of them."""
    versions: list[tuple[int, int, int] | None] = []
    for path in settings.files:
        try:
            status = os.stat(path)
        except OSError:
            versions.append(None)
        else:
            versions.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(versions)


def _check_replacement(before: KeyMaterial, after: KeyMaterial, rules: ReplacementRules) -> None:
    old, new = before.leaf, after.leaf
    old_name, new_name = subject_of(old), subject_of(new)
    if old_name != new_name and not rules.allow_dn_changes:
        raise ConfigError(
            f"The new certificate is for {new_name}, the current one for {old_name}. Use the same "
            "distinguished name, "
            "or set ssl.allow.dn.changes=true"
        )
    missing = _alternative_names(old) - _alternative_names(new)
    if missing and not rules.allow_san_changes:
        raise ConfigError(
            f"The new certificate lacks the alternative names {', '.join(sorted(missing))}. Add them, or set "
            "ssl.allow.san.changes=true"
        )


def _alternative_names(certificate: bytes) -> set[str]:
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName, load_der_x509_certificate

    try:
        extension = load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            SubjectAlternativeName
        )
    except ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}


def _check_trust(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Connect the two in memory: a broker with these stores must be able to connect to its peers."""
    # The host name belongs to each broker, so it cannot be checked here.
    verifies_name, client.check_hostname = client.check_hostname, False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(_MAX_ROUND_TRIPS):
            for side in list(sides):
                try:
                    side.do_handshake()
                    sides.remove(side)
                except ssl.SSLWantReadError:
                    continue
            if not sides:
                return
    except ssl.SSLError as error:
        raise ConfigError(
            f"A broker with these stores cannot connect to another one: {explain(error)}. Brokers need a "
            "certificate "
            "that their trust store trusts; check ssl.keystore and ssl.truststore of the inter-broker "
            "listener"
        ) from None
    finally:
        client.check_hostname = verifies_name
