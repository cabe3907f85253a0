"""The content of key store files: PEM, and PKCS12 for Java programs that cannot read PEM."""

from __future__ import annotations

from ruslo.model.secret import Secret
from ruslo.net.tls.development_ca import Issued


def key_store_pem(issued: Issued) -> str:
    """The content of a PEM file for ``ssl.keystore.location``: the key, then the certificate chain."""
    return issued.key.reveal() + issued.chain


def key_store_pkcs12(issued: Issued, name: str, password: Secret) -> bytes:
    """The content of a PKCS12 file for ``ssl.keystore.location``, protected by ``ssl.keystore.password``."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        load_pem_private_key,
        pkcs12,
    )
    from cryptography.x509 import load_pem_x509_certificates

    key = load_pem_private_key(issued.key.reveal().encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey), "a development CA issues no other keys"
    certificate, *issuers = load_pem_x509_certificates(issued.chain.encode())
    return pkcs12.serialize_key_and_certificates(
        name.encode(), key, certificate, issuers, BestAvailableEncryption(password.reveal().encode())
    )
