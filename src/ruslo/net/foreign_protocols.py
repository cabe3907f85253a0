"""Recognises clients that speak another protocol, by the first bytes that they send."""

from __future__ import annotations

import re

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI) ")
_SSH = b"SSH-"
_PROXY = (b"PROXY ", b"\r\n\r\n\x00\r\nQUIT\n")

DETECTION_BYTES = 16


def foreign_protocol(data: bytes) -> str | None:
    """What ``data`` begins with and what to do about it; None if it is not recognised."""
    if data.startswith(_TLS_HANDSHAKE):
        return (
            "received a TLS handshake on a listener that speaks plaintext; "
            "set security.protocol=PLAINTEXT in the client"
        )
    if _HTTP.match(data):
        return (
            "received an HTTP request on a listener that speaks the Kafka protocol; "
            "use the address in ruslo.metrics.listener for metrics and probes"
        )
    if data.startswith(_SSH):
        return "received an SSH greeting on a listener that speaks the Kafka protocol; use another port"
    if data.startswith(_PROXY):
        return (
            "received a PROXY protocol header, which this listener does not read; switch it off in the proxy"
        )
    return None
