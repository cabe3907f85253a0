"""Stores, versions, cipher suites and contexts from Kafka's settings, and handshakes with them."""

from __future__ import annotations

import os
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificates

from ruslo.model.errors import ConfigError
from ruslo.model.secret import Secret
from ruslo.net.tls.contexts import client_context, server_context
from ruslo.net.tls.development_ca import DevelopmentCa, Issued
from ruslo.net.tls.errors import TlsError, explain
from ruslo.net.tls.settings import ClientAuth, StoreSettings, TlsSettings

STORE = ("-storetype", "PKCS12", "-storepass", "changeit")
JKS = ("-storetype", "JKS", "-storepass", "changeit", "-keypass", "changeit")
CA = DevelopmentCa.new()
BROKER = CA.issue("broker-1", ["localhost", "127.0.0.1"])
CLIENT = CA.issue("alice", organization="Example")


def pem(issued: Issued) -> StoreSettings:
    return StoreSettings("PEM", key=issued.key, certificates=Secret(issued.chain))


TRUST = StoreSettings("PEM", certificates=Secret(CA.certificate))
SERVER = TlsSettings(key_store=pem(BROKER), trust_store=TRUST)


def handshake(
    server: TlsSettings = SERVER, client: TlsSettings | None = None, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Connect both in memory; raises TlsError of the side that fails first."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    own = client_context(client or TlsSettings(trust_store=TRUST))
    sides = (
        own.wrap_bio(to_client, to_server, server_side=False, server_hostname=host),
        server_context(server)[0].wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(6):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                raise explain(error) from None
    assert sides[0].version() == sides[1].version() is not None
    # In TLS 1.3 the client learns of a refused certificate only with the next read.
    return sides


def refused(settings: TlsSettings) -> str:
    with pytest.raises(ConfigError) as failure:
        server_context(settings)
    return str(failure.value)


def pkcs12_file(path: Path, issued: Issued, password: str) -> str:
    chain = load_pem_x509_certificates(issued.chain.encode())
    key: Any = load_pem_private_key(issued.key.reveal().encode(), None)
    data = pkcs12.serialize_key_and_certificates(
        b"x",
        key,
        chain[0],
        chain[1:],
        BestAvailableEncryption(password.encode()),
    )
    path.write_bytes(data)
    return str(path)


def test_pem_in_the_settings() -> None:
    client, server = handshake()
    assert client.version() == "TLSv1.3"
    assert server.getpeercert() is None


def test_pem_files(tmp_path: Path) -> None:
    store, trust = tmp_path / "broker.pem", tmp_path / "ca.pem"
    store.write_text(BROKER.key.reveal() + BROKER.chain)
    trust.write_text(CA.certificate)
    server = TlsSettings(key_store=StoreSettings("PEM", str(store)))
    # Without a type the content of the file decides.
    handshake(server, TlsSettings(trust_store=StoreSettings(location=str(trust))))


def test_a_store_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for location in (str(pipe), "/dev/zero"):
        store = StoreSettings("PEM", location)
        assert "not a regular file" in refused(replace(SERVER, key_store=store))


def test_pkcs12_files(tmp_path: Path) -> None:
    store = StoreSettings("PKCS12", pkcs12_file(tmp_path / "b.p12", BROKER, "changeit"), Secret("changeit"))
    handshake(TlsSettings(key_store=store))
    handshake(TlsSettings(key_store=replace(store, type="JKS")))
    assert "password" in refused(TlsSettings(key_store=replace(store, password=Secret("wrong"))))


def test_a_trust_store_of_keytool(tmp_path: Path) -> None:
    certificate, store = tmp_path / "ca.pem", tmp_path / "trust.p12"
    certificate.write_text(CA.certificate)
    subprocess.run(
        [
            "keytool",
            "-importcert",
            "-noprompt",
            "-alias",
            "ca",
            "-file",
            certificate,
            "-keystore",
            store,
            *STORE,
        ],
        check=True,
        capture_output=True,
    )
    trust = StoreSettings("PKCS12", str(store), Secret("changeit"))
    handshake(client=TlsSettings(trust_store=trust))


def test_a_java_key_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "broker.jks"
    subprocess.run(
        [
            "keytool",
            "-genkeypair",
            "-alias",
            "b",
            "-dname",
            "CN=b",
            "-keyalg",
            "EC",
            "-keystore",
            store,
            *JKS,
        ],
        check=True,
        capture_output=True,
    )
    message = refused(TlsSettings(key_store=StoreSettings("JKS", str(store), Secret("changeit"))))
    assert f"keytool -importkeystore -srckeystore {store}" in message
    assert "changeit" not in message
    command = message.partition("Convert it: ")[2].partition(";")[0].split()
    subprocess.run(
        [*command, "-srcstorepass", "changeit", "-deststorepass", "changeit"], check=True, capture_output=True
    )
    converted = StoreSettings("PKCS12", str(store.with_suffix(".p12")), Secret("changeit"))
    server_context(TlsSettings(key_store=converted))


def test_an_encrypted_key_needs_its_password() -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

    key = load_pem_private_key(BROKER.key.reveal().encode(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")
    )
    store = StoreSettings("PEM", key=Secret(key.decode()), certificates=Secret(BROKER.chain))
    handshake(TlsSettings(key_store=store, key_password=Secret("sesame")))
    for password in (None, Secret("wrong")):
        message = refused(TlsSettings(key_store=store, key_password=password))
        assert "ssl.key.password" in message
        assert "wrong" not in message


def test_a_key_that_does_not_belong_to_its_certificate_is_refused() -> None:
    mixed = StoreSettings("PEM", key=CLIENT.key, certificates=Secret(BROKER.chain))
    assert "does not belong" in refused(TlsSettings(key_store=mixed))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (TlsSettings(), "ssl.keystore.location"),
        (TlsSettings(key_store=StoreSettings("PEM", "/nowhere.pem")), "cannot be read"),
        (TlsSettings(key_store=StoreSettings("BCFKS", "/x")), "PEM or PKCS12"),
        (TlsSettings(key_store=StoreSettings("PEM", key=BROKER.key)), "ssl.keystore.certificate.chain"),
        (replace(SERVER, protocols=("TLSv1.1",)), "TLSv1.1"),
        (replace(SERVER, protocols=()), "nothing"),
        (replace(SERVER, cipher_suites=("TLS_NULL",)), "TLS_NULL"),
        (replace(SERVER, cipher_suites=("TLS_AES_128_GCM_SHA256",)), "all suites of TLS 1.3"),
        (
            replace(
                SERVER, protocols=("TLSv1.3",), cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",)
            ),
            "no suite for the versions",
        ),
        (replace(SERVER, client_auth=ClientAuth.REQUIRED, trust_store=StoreSettings()), "ssl.truststore"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(settings: TlsSettings, reason: str) -> None:
    assert reason in refused(settings)


def test_versions_and_suites_are_kept() -> None:
    client, _ = handshake(replace(SERVER, protocols=("TLSv1.2",)))
    assert client.version() == "TLSv1.2"
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    client, _ = handshake(replace(SERVER, cipher_suites=(suite,)))
    assert client.version() == "TLSv1.2"
    cipher = client.cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_a_downgrade_is_refused() -> None:
    old = TlsSettings(trust_store=TRUST, protocols=("TLSv1.2",))
    with pytest.raises(TlsError, match="version"):
        handshake(replace(SERVER, protocols=("TLSv1.3",)), old)


def test_host_names_are_verified_unless_that_is_disabled() -> None:
    for host in ("localhost", "127.0.0.1"):
        handshake(host=host)
    with pytest.raises(TlsError, match="elsewhere"):
        handshake(host="elsewhere")
    handshake(client=TlsSettings(trust_store=TRUST, verify_host_name=False), host="elsewhere")


def test_an_unknown_authority_is_not_trusted() -> None:
    other = StoreSettings("PEM", certificates=Secret(DevelopmentCa.new("other").certificate))
    with pytest.raises(TlsError, match="certificate"):
        handshake(client=TlsSettings(trust_store=other))


def test_client_certificates() -> None:
    required = replace(SERVER, client_auth=ClientAuth.REQUIRED)
    own = TlsSettings(trust_store=TRUST, key_store=pem(CLIENT))
    _, server = handshake(required, own)
    assert server.getpeercert(binary_form=True) is not None
    with pytest.raises(TlsError, match="certificate"):
        handshake(required)
    _, server = handshake(replace(SERVER, client_auth=ClientAuth.REQUESTED))
    assert not server.getpeercert(binary_form=True)


def test_secrets_are_not_printed() -> None:
    assert "PRIVATE" not in repr(SERVER)
