"""Detects clients that use another protocol, by the first bytes that they send."""

from __future__ import annotations

import re

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI) ")
_SSH = b"SSH-"
_PROXY = (b"PROXY ", b"\r\n\r\n\x00\r\nQUIT\n")

DETECTION_BYTES = 16


def foreign_protocol(data: bytes) -> str | None:
    """Return which protocol ``data`` begins with and what to do about it; None if it is unknown."""
    if data.startswith(_TLS_HANDSHAKE):
        return (
            "received a TLS handshake on a plaintext listener; set security.protocol=PLAINTEXT in the client"
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
