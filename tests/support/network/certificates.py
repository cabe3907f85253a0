"""Certificates for tests, and the TLS settings that use them."""

from __future__ import annotations

from functools import cache

from ruslo.model.secret import Secret
from ruslo.net.tls.development_ca import DevelopmentCa, Issued
from ruslo.net.tls.listener_tls import ListenerTls, ReplacementRules
from ruslo.net.tls.principal_mapping import PrincipalMapper
from ruslo.net.tls.settings import ClientAuth, StoreSettings, TlsSettings

HOSTS = ("localhost", "127.0.0.1")


@cache
def authority() -> DevelopmentCa:
    return DevelopmentCa.new()


@cache
def broker_certificate() -> Issued:
    return authority().issue("broker", HOSTS)


@cache
def client_certificate(name: str) -> Issued:
    return authority().issue(name)


def pem_store(issued: Issued) -> StoreSettings:
    return StoreSettings("PEM", key=issued.key, certificates=Secret(issued.chain))


def trust_store() -> StoreSettings:
    return StoreSettings("PEM", certificates=Secret(authority().certificate))


def broker_tls(client_auth: ClientAuth = ClientAuth.NONE) -> ListenerTls:
    settings = TlsSettings(
        key_store=pem_store(broker_certificate()), trust_store=trust_store(), client_auth=client_auth
    )
    return ListenerTls(settings, PrincipalMapper("DEFAULT"), ReplacementRules())


def client_tls(name: str | None = None) -> TlsSettings:
    """The settings of a client, with a certificate if it has a name."""
    store = StoreSettings() if name is None else pem_store(client_certificate(name))
    return TlsSettings(key_store=store, trust_store=trust_store())
