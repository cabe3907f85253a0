"""Other protocols are recognised by their first bytes; Kafka requests are not mistaken for them."""

from __future__ import annotations

import struct

import pytest

from ruslo.net.foreign_protocols import foreign_protocol
from ruslo.protocol.apis import API_BY_KEY


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (bytes.fromhex("16030100f8010000f40303"), "TLS"),
        (bytes.fromhex("16030302"), "TLS"),
        (b"GET /metrics HTTP/1.1\r\n", "HTTP"),
        (b"POST ", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
        (b"SSH-2.0-OpenSSH", "SSH"),
        (b"PROXY TCP4 10.0.0.1", "PROXY"),
        (b"\r\n\r\n\x00\r\nQUIT\n\x21", "PROXY"),
    ],
)
def test_recognised(data: bytes, name: str) -> None:
    assert name in (foreign_protocol(data) or "")


@pytest.mark.parametrize("data", [b"", b"\x16", b"GETS", struct.pack(">i", -1), struct.pack(">i", 2**31 - 1)])
def test_not_recognised(data: bytes) -> None:
    assert foreign_protocol(data) is None


@pytest.mark.parametrize("size", [10, 1 << 20, 100 * 1024 * 1024])
def test_kafka_requests_are_not_recognised_as_another_protocol(size: int) -> None:
    for api in API_BY_KEY.values():
        head = struct.pack(">ihhih", size, api.key, api.max_version, 1, 8)
        assert foreign_protocol(head) is None
