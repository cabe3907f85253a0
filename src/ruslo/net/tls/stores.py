"""Reads key stores and trust stores: PEM (a file, or text in the settings) and PKCS12.

A Java key store (JKS) is refused with the command that converts it. Private keys stay in memory: OpenSSL
reads them from an anonymous file of this process.
"""

from __future__ import annotations

import os
import re
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ruslo.model.errors import ConfigError
from ruslo.model.secret import Secret
from ruslo.net.tls.settings import StoreSettings

MAX_STORE_BYTES = 16 * 1024 * 1024
_JKS_MAGIC = bytes.fromhex("feedfeed")
_JCEKS_MAGIC = bytes.fromhex("cececece")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN ((?:[A-Z0-9]+ )?PRIVATE KEY)-----.+?-----END \1-----", re.DOTALL)


class KeyMaterial(NamedTuple):
    """A private key and its certificate chain, as PEM."""

    key: Secret
    chain: str
    password: Secret | None = None
    """The password of the key, if it is encrypted."""

    def load_into(self, context: ssl.SSLContext) -> None:
        password = "" if self.password is None else self.password.reveal()
        with _anonymous_file(self.key.reveal()) as key_path, _anonymous_file(self.chain) as chain_path:
            # A function, so that OpenSSL never asks at a terminal.
            context.load_cert_chain(chain_path, key_path, lambda: password)

    @property
    def leaf(self) -> bytes:
        """The first certificate of the chain, as DER."""
        return ssl.PEM_cert_to_DER_cert(_certificates(self.chain)[0])


@contextmanager
def _anonymous_file(text: str) -> Iterator[str]:
    descriptor = os.memfd_create("pem")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def read_key_store(store: StoreSettings, key_password: Secret | None) -> KeyMaterial:
    """Raises ConfigError."""
    kind = store_type(store, "ssl.keystore")
    if store.certificates is not None or store.key is not None:
        if store.certificates is None or store.key is None:
            missing = "ssl.keystore.key" if store.key is None else "ssl.keystore.certificate.chain"
            raise ConfigError(f"{missing} is missing. Set it together with its counterpart")
        return _from_pem(
            f"{store.key.reveal()}\n{store.certificates.reveal()}",
            "ssl.keystore.certificate.chain",
            key_password,
        )
    data = _read(store, "ssl.keystore.location")
    if kind == "PKCS12":
        return _key_from_pkcs12(data, store)
    return _from_pem(_text(data, "ssl.keystore.location"), "ssl.keystore.location", key_password)


def read_trust_store(store: StoreSettings) -> str:
    """The trusted certificates as PEM. Raises ConfigError."""
    kind = store_type(store, "ssl.truststore")
    if store.certificates is not None:
        return _trusted(store.certificates.reveal(), "ssl.truststore.certificates")
    data = _read(store, "ssl.truststore.location")
    if kind == "PKCS12":
        return _trusted_from_pkcs12(data, store)
    return _trusted(_text(data, "ssl.truststore.location"), "ssl.truststore.location")


def store_type(store: StoreSettings, prefix: str) -> str:
    """PEM or PKCS12. Raises ConfigError for a Java key store and for unknown types.

    JKS is the default of the setting, in Kafka, too: a file in another format is read by its content.
    """
    kind = store.type.upper()
    if store.certificates is not None or store.key is not None:
        if kind not in ("PEM", "JKS"):
            raise ConfigError(
                f"{prefix}.type={store.type} does not fit PEM text in the settings. Set it to PEM"
            )
        return "PEM"
    if kind in ("PEM", "PKCS12"):
        return kind
    if kind != "JKS":
        raise ConfigError(f"{prefix}.type={store.type} is not supported. Use PEM or PKCS12")
    beginning = _read(store, f"{prefix}.location")[:4]
    if beginning in (_JKS_MAGIC, _JCEKS_MAGIC):
        raise ConfigError(
            f"{store.location} is a Java key store, which only Java reads. Convert it: keytool "
            "-importkeystore "
            f"-srckeystore {store.location} -destkeystore {_p12_name(store.location)} -deststoretype PKCS12; "
            "then set "
            f"{prefix}.location={_p12_name(store.location)} and {prefix}.type=PKCS12"
        )
    # Since Java 9 keytool writes PKCS12 under the name of JKS.
    return "PEM" if beginning.startswith(b"-") else "PKCS12"


def _p12_name(location: str | None) -> str:
    return f"{(location or 'store').removesuffix('.jks')}.p12"


def _read(store: StoreSettings, key: str) -> bytes:
    if store.location is None:
        raise ConfigError(f"{key} is missing. Name the file of the store")
    try:
        # A pipe would block the node until a program writes to it, and a device may have no end.
        with open(
            store.location, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)
        ) as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_STORE_BYTES:
                return file.read(MAX_STORE_BYTES)
        raise ConfigError(
            f"{key}={store.location} is not a regular file of at most {MAX_STORE_BYTES} bytes. Name the file "
            "of the store"
        )
    except OSError as error:
        raise ConfigError(
            f"{key}={store.location} cannot be read: {error.strerror}. Check the path and its owner"
        ) from None


def _text(data: bytes, key: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(
            f"{key} does not name a PEM file. Set the type of the store to PKCS12, or convert it"
        ) from None


def _from_pem(text: str, key: str, password: Secret | None) -> KeyMaterial:
    found = _KEY.search(text)
    if found is None:
        raise ConfigError(f"{key} holds no private key in PEM format. Add '-----BEGIN PRIVATE KEY-----'")
    certificates = _certificates(text)
    if not certificates:
        raise ConfigError(f"{key} holds no certificate in PEM format. Add the certificate chain of the key")
    material = KeyMaterial(Secret(found[0]), "\n".join(certificates), password)
    try:
        material.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"The private key of {key} does not belong to its first certificate") from None
        raise ConfigError(
            f"The private key of {key} cannot be read ({error.reason}). Check ssl.key.password and the PEM "
            "text"
        ) from None
    return material


def _trusted(text: str, key: str) -> str:
    certificates = _certificates(text)
    if not certificates:
        raise ConfigError(f"{key} holds no certificate in PEM format. Add the certificate of the CA")
    joined = "\n".join(certificates)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=joined)
    except ssl.SSLError as error:
        raise ConfigError(
            f"A certificate of {key} cannot be read ({error.reason}). Check the PEM text"
        ) from None
    return joined


def _certificates(text: str) -> list[str]:
    return _CERTIFICATE.findall(text)


def _key_from_pkcs12(data: bytes, store: StoreSettings) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    content = _open_pkcs12(data, store, "ssl.keystore")
    if content.key is None or content.cert is None:
        raise ConfigError(f"{store.location} holds no private key with a certificate. Export both into it")
    chain = [content.cert.certificate, *(each.certificate for each in content.additional_certs)]
    key = content.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyMaterial(
        Secret(key.decode()), "\n".join(each.public_bytes(Encoding.PEM).decode() for each in chain)
    )


def _trusted_from_pkcs12(data: bytes, store: StoreSettings) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    content = _open_pkcs12(data, store, "ssl.truststore")
    found = [each for each in (content.cert, *content.additional_certs) if each is not None]
    if not found:
        raise ConfigError(f"{store.location} holds no certificate. Import the certificate of the CA into it")
    return "\n".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in found)


def _open_pkcs12(data: bytes, store: StoreSettings, prefix: str):  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives.serialization import pkcs12

    password = None if store.password is None else store.password.reveal().encode()
    try:
        return pkcs12.load_pkcs12(data, password)
    except ValueError as error:
        raise ConfigError(
            f"{prefix}.location={store.location} is not a PKCS12 store, or {prefix}.password is wrong "
            f"({error})"
        ) from None
