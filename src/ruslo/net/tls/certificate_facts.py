"""What is in a certificate, as an operator wants to know it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.secret import Secret
from ruslo.net.tls.distinguished_names import format_name

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_DER_START = b"\x30"
"""A DER certificate and a PKCS12 file begin with a sequence; PEM is text."""


class CertificateFacts(NamedTuple):
    subject: str
    """As Kafka writes it: the principal of a client that logs in with the certificate."""
    names: tuple[str, ...]
    """The host names and addresses of the subject (SANs)."""
    issuer: str
    not_before_ms: int
    not_after_ms: int
    usages: tuple[str, ...]
    """``CA``, ``server``, ``client``; empty: the certificate does not restrict them."""
    key: str
    """The type of the key, such as ``EC secp256r1`` or ``RSA 2048``."""
    serial: str
    fingerprint: str
    """SHA-256 of the certificate, as ``openssl x509 -fingerprint -sha256`` prints it."""


class StoreFacts(NamedTuple):
    has_key: bool
    certificates: tuple[CertificateFacts, ...]


class PasswordNeeded(ValueError):
    """The PKCS12 file cannot be opened without a password, or with this one."""


def read_store(data: bytes, password: Secret | None = None) -> StoreFacts:
    """The certificates of a PEM, DER or PKCS12 file. Raises ValueError if it contains none."""
    if not data.startswith(_DER_START):
        from cryptography.x509 import load_pem_x509_certificates

        try:
            certificates = load_pem_x509_certificates(data)
        except ValueError:
            # Its own message advises programmers.
            raise ValueError("it is not PEM, or a certificate in it is damaged") from None
        return StoreFacts(b"PRIVATE KEY-----" in data, tuple(map(facts_of, certificates)))
    return _read_der(data) or _read_pkcs12(data, password)


def facts_of_pem(text: str) -> CertificateFacts:
    """The first certificate of a PEM text."""
    from cryptography.x509 import load_pem_x509_certificate

    return facts_of(load_pem_x509_certificate(text.encode()))


def _read_der(data: bytes) -> StoreFacts | None:
    """None: the file is not a certificate."""
    from cryptography.x509 import load_der_x509_certificate

    try:
        return StoreFacts(False, (facts_of(load_der_x509_certificate(data)),))
    except ValueError:
        return None


def _read_pkcs12(data: bytes, password: Secret | None) -> StoreFacts:
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        content = pkcs12.load_pkcs12(data, None if password is None else password.reveal().encode())
    except ValueError as error:
        raise PasswordNeeded(str(error)) from error
    found: Iterable[pkcs12.PKCS12Certificate | None] = (content.cert, *content.additional_certs)
    certificates = tuple(facts_of(each.certificate) for each in found if each is not None)
    if not certificates:
        raise ValueError("it has none")
    return StoreFacts(content.key is not None, certificates)


def facts_of(certificate: Certificate) -> CertificateFacts:
    from cryptography.hazmat.primitives.hashes import SHA256

    return CertificateFacts(
        subject=format_name(certificate.subject.public_bytes()),
        names=_names(certificate),
        issuer=format_name(certificate.issuer.public_bytes()),
        not_before_ms=_milliseconds(certificate.not_valid_before_utc),
        not_after_ms=_milliseconds(certificate.not_valid_after_utc),
        usages=_usages(certificate),
        key=_key(certificate),
        serial=f"{certificate.serial_number:x}",
        fingerprint=certificate.fingerprint(SHA256()).hex(":").upper(),
    )


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _names(certificate: Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in extension.value)


def _usages(certificate: Certificate) -> tuple[str, ...]:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    shown = {ExtendedKeyUsageOID.SERVER_AUTH: "server", ExtendedKeyUsageOID.CLIENT_AUTH: "client"}
    usages = []
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.BasicConstraints) and extension.value.ca:
            usages.append("CA")
        if isinstance(extension.value, x509.ExtendedKeyUsage):
            usages += [shown.get(each, each.dotted_string) for each in extension.value]
    return tuple(usages)


def _key(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    key = certificate.public_key()
    if isinstance(key, EllipticCurvePublicKey):
        return f"EC {key.curve.name}"
    if isinstance(key, RSAPublicKey):
        return f"RSA {key.key_size}"
    return type(key).__name__.removesuffix("PublicKey")
