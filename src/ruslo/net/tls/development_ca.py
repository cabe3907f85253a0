"""A certificate authority for development and tests: issues certificates for brokers and clients.

Everything is PEM text. For production use the authority of your organisation: a program that has its key
can impersonate every broker and client.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ruslo.model.clock import Clock, SystemClock
from ruslo.model.secret import Secret

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DEFAULT_NAME = "Ruslo development CA"
DEFAULT_DAYS = 365
DEFAULT_CA_DAYS = 10 * DEFAULT_DAYS
_CLOCK_TOLERANCE = timedelta(minutes=5)


class Issued(NamedTuple):
    key: Secret
    """The private key, as PEM (PKCS#8)."""
    chain: str
    """The certificate and the one of its issuer, as PEM."""


class DevelopmentCa:
    def __init__(self, key: Secret, certificate: str, clock: Clock | None = None) -> None:
        """An authority that exists; ``new`` makes one. Raises ValueError for invalid PEM."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        self.key = key
        self.certificate = certificate
        """The certificate that brokers and clients trust, as PEM."""
        self._clock = clock or SystemClock()
        self._private_key: Any = load_pem_private_key(key.reveal().encode(), None)
        self._issuer = x509.load_pem_x509_certificate(certificate.encode())

    @property
    def is_consistent(self) -> bool:
        """The key is the key of the certificate."""
        return bool(self._private_key.public_key() == self._issuer.public_key())

    @property
    def expires_at_ms(self) -> int:
        return int(self._issuer.not_valid_after_utc.timestamp() * 1000)

    @classmethod
    def new(
        cls, name: str = DEFAULT_NAME, clock: Clock | None = None, *, days: int = DEFAULT_CA_DAYS
    ) -> Self:
        key = _new_key()
        subject = _subject(name, None)
        now = _now(clock or SystemClock())
        builder = _builder(subject, subject, key, now, now + timedelta(days=days))
        certificate = _sign(_with_ca_extensions(builder, key), key)
        return cls(_key_pem(key), _certificate_pem(certificate), clock)

    def issue(
        self,
        common_name: str,
        hosts: Iterable[str] = (),
        *,
        organization: str | None = None,
        days: int = DEFAULT_DAYS,
        client_only: bool = False,
    ) -> Issued:
        """A certificate for a broker that is reached under these names and addresses, or for a client.

        A broker is also a client of the other brokers. ``client_only``: the certificate cannot be that of a
        broker. Raises ValueError for an invalid name or host.
        """
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        now = _now(self._clock)
        # A certificate that outlives the one of its issuer would only look valid.
        not_after = min(now + timedelta(days=days), self._issuer.not_valid_after_utc)
        builder = _builder(_subject(common_name, organization), self._issuer.subject, key, now, not_after)
        names = [_general_name(host) for host in dict.fromkeys(hosts)]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if not client_only:
            usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._private_key.public_key()),
                critical=False,
            )
        )
        certificate = _certificate_pem(_sign(builder, self._private_key))
        return Issued(_key_pem(key), certificate + self.certificate)


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now_ms() / 1000, UTC)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    # Signing with it takes a tenth of the time of an RSA key, and each handshake signs once.
    return ec.generate_private_key(ec.SECP256R1())


def _subject(common_name: str, organization: str | None) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    now: datetime,
    not_after: datetime,
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_TOLERANCE)
        .not_valid_after(not_after)
    )


def _with_ca_extensions(
    builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    from cryptography import x509

    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _sign(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _key_pem(key: EllipticCurvePrivateKey) -> Secret:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def _certificate_pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
