"""Detects clients that use another protocol, by the first bytes that they send."""

from __future__ import annotations

import re

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI) ")
_SSH = b"SSH-"
_PROXY = (b"PROXY ", b"\r\n\r\n\x00\r\nQUIT\n")

DETECTION_BYTES = 16
_FRAME_START = 4
"""A frame of Kafka below 64 KiB, as the first ones are, begins with two zero bytes."""


def foreign_protocol(data: bytes, *, tls: bool = False) -> str | None:
    """Return which protocol ``data`` begins with and what to do about it; None if it is unknown.

    ``tls``: the listener expects TLS.
    """
    if data.startswith(_TLS_HANDSHAKE):
        return (
            "received a TLS handshake on a listener without TLS; set security.protocol to PLAINTEXT, or to "
            "SASL_PLAINTEXT, in the client"
        )
    if tls and len(data) >= _FRAME_START and not data[0] and not data[1]:
        return (
            "received a plain Kafka request on a TLS listener; set security.protocol to SSL, or to SASL_SSL, "
            "in "
            "the client"
        )
    if _HTTP.match(data):
        return (
            "received an HTTP request on a Kafka listener; "
            "use the address in ruslo.metrics.listener for metrics and probes"
        )
    if data.startswith(_SSH):
        return "received an SSH greeting on a Kafka listener; use another port"
    if data.startswith(_PROXY):
        return "received a PROXY protocol header, which is not supported; disable it in the proxy"
    return None
