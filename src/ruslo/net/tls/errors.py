"""Errors of TLS, in words that name the fix."""

from __future__ import annotations

import ssl

from ruslo.model.errors import RusloError


class TlsError(RusloError):
    """A handshake failed, or what was received is not TLS."""


_CAUSES = {
    "CERTIFICATE_VERIFY_FAILED": "the certificate of the peer is not trusted",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust this side's certificate; add its CA to the peer's "
    "trust store",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer rejected this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this side's certificate has expired; replace it in ssl.keystore",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": (
        "the peer rejected this side's certificate; check its trust store and the host name in the "
        "certificate"
    ),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer requires a client certificate; set ssl.keystore.location",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, but ssl.client.auth is required",
    "NO_SHARED_CIPHER": "both sides have no cipher suite in common; compare ssl.cipher.suites",
    "UNSUPPORTED_PROTOCOL": "both sides have no TLS version in common; compare ssl.enabled.protocols",
    "TLSV1_ALERT_PROTOCOL_VERSION": "both sides have no TLS version in common; compare ssl.enabled.protocols",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": (
        "the peer found no common TLS version, cipher suite or client certificate; compare the ssl settings"
    ),
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS; check security.protocol and the port",
    "HTTP_REQUEST": "received an HTTP request on a TLS listener of Kafka's protocol",
}


def explain(error: ssl.SSLError) -> TlsError:
    """The cause of a failed handshake in words."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(f"the certificate of the peer is not valid: {error.verify_message}")
    return TlsError(_CAUSES.get(reason) or f"TLS failed: {reason.lower().replace('_', ' ') or error}")
