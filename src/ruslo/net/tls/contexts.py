"""OpenSSL contexts from Kafka's settings."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from ruslo.model.errors import ConfigError
from ruslo.net.tls.cipher_suites import cipher_choice
from ruslo.net.tls.settings import ClientAuth, TlsSettings
from ruslo.net.tls.stores import KeyMaterial, read_key_store, read_trust_store

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings) -> tuple[ssl.SSLContext, KeyMaterial]:
    """The context of a listener, and its key. Raises ConfigError."""
    if not settings.key_store.is_set:
        raise ConfigError(
            "A TLS listener needs a certificate. Set ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Connections of Kafka live long: making and sending tickets for each costs more than resumption saves.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    _set_versions(context, settings)
    material = read_key_store(settings.key_store, settings.key_password)
    material.load_into(context)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.client_auth is not ClientAuth.NONE:
        if not settings.trust_store.is_set:
            raise ConfigError(
                f"ssl.client.auth={settings.client_auth.value} needs the CA of the clients. Set "
                "ssl.truststore.location"
            )
        _trust(context, read_trust_store(settings.trust_store))
    return context, material


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of outbound connections. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verify_host_name
    _set_versions(context, settings)
    if settings.trust_store.is_set:
        _trust(context, read_trust_store(settings.trust_store))
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.key_store.is_set:
        read_key_store(settings.key_store, settings.key_password).load_into(context)
    return context


def _trust(context: ssl.SSLContext, certificates: str) -> None:
    # As in Java, a certificate in the trust store is trusted by itself, even if its issuer is not there.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificates)


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = _versions(settings.protocols)
    choice = cipher_choice(settings.cipher_suites)
    if choice is not None:
        offered = {ssl.TLSVersion.TLSv1_2: bool(choice.tls_12), ssl.TLSVersion.TLSv1_3: choice.tls_13}
        versions = [version for version in versions if offered[version]]
        if not versions:
            raise ConfigError(
                "ssl.cipher.suites has no suite for the versions in ssl.enabled.protocols. Change one"
            )
        if choice.tls_12:
            context.set_ciphers(choice.tls_12)
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _versions(names: Sequence[str]) -> list[ssl.TLSVersion]:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise ConfigError(
            f"ssl.enabled.protocols lists {', '.join(unknown) or 'nothing'}. Use TLSv1.2, TLSv1.3 or both; "
            "older versions "
            "are not safe"
        )
    return [_VERSIONS[name] for name in names]
