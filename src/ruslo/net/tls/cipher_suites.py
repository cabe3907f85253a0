"""Cipher suites by their standard names, as Java and Kafka write them, in OpenSSL's names."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import NamedTuple

from ruslo.model.errors import ConfigError

TLS_13_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 that OpenSSL enables. Python cannot select among them."""
_STANDARD = re.compile(r"TLS_(?:(ECDHE|DHE|RSA)_?(RSA|ECDSA|DSS)?_)WITH_(\w+)")


class CipherChoice(NamedTuple):
    tls_12: str
    """OpenSSL's cipher string; empty: no suite of TLS 1.2."""
    tls_13: bool


def cipher_choice(suites: Sequence[str]) -> CipherChoice | None:
    """None: the defaults of OpenSSL. Raises ConfigError for suites that are unknown or cannot be selected."""
    if not suites:
        return None
    modern = [name for name in suites if name in TLS_13_SUITES]
    older = [name for name in suites if name not in TLS_13_SUITES]
    if modern and len(set(modern)) < len(TLS_13_SUITES):
        raise ConfigError(
            f"ssl.cipher.suites lists {', '.join(modern)}, but OpenSSL through Python enables all suites of "
            "TLS 1.3 or "
            f"none. List all of {', '.join(TLS_13_SUITES)}, or remove TLSv1.3 from ssl.enabled.protocols and "
            "list "
            "suites of TLS 1.2"
        )
    return CipherChoice(":".join(map(_openssl_name, older)), bool(modern))


def _openssl_name(suite: str) -> str:
    name = suite
    match = _STANDARD.fullmatch(suite)
    if match is not None:
        exchange, signature, cipher = match.groups()
        prefix = "" if exchange == "RSA" else f"{exchange}-{signature or 'RSA'}-"
        cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher).replace("_CBC", "").replace("_", "-")
        name = prefix + cipher.replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
    except ssl.SSLError:
        raise ConfigError(
            f"ssl.cipher.suites lists {suite}, which OpenSSL does not have. Remove it; 'openssl ciphers "
            "-stdname' lists "
            "the suites"
        ) from None
    return name
