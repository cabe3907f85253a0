"""Encodes OTLP metrics as clients push them (KIP-714)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

DELTA, CUMULATIVE = 1, 2


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def fixed64(field: int, value: int) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<q", value)


def nested(field: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    return nested(field, value.encode())


def attributes(field: int, values: Mapping[str, str | bool | int | float]) -> bytes:
    return b"".join(nested(field, text(1, key), nested(2, _any(value))) for key, value in values.items())


def _any(value: str | bool | int | float) -> bytes:
    if isinstance(value, str):
        return text(1, value)
    if isinstance(value, bool):
        return number(2, value)
    return number(3, value) if isinstance(value, int) else double(4, value)


def point(value: float, **labels: str | bool | int | float) -> bytes:
    """A number data point: an int as ``as_int``, a float as ``as_double``."""
    encoded = fixed64(6, value) if isinstance(value, int) else double(4, value)
    return nested(1, fixed64(3, 1), attributes(7, labels), encoded)


def gauge(name: str, *points: bytes) -> bytes:
    return nested(2, text(1, name), nested(5, *points))


def counter(name: str, *points: bytes, temporality: int = DELTA, monotonic: bool = True) -> bytes:
    return nested(2, text(1, name), nested(7, *points, number(2, temporality), number(3, monotonic)))


def histogram(
    name: str,
    bounds: Sequence[float],
    counts: Sequence[int],
    total: float,
    temporality: int = DELTA,
    **labels: str | bool | int | float,
) -> bytes:
    body = nested(
        1,
        attributes(9, labels),
        fixed64(4, sum(counts)),
        double(5, total),
        nested(6, struct.pack(f"<{len(counts)}q", *counts)),
        nested(7, struct.pack(f"<{len(bounds)}d", *bounds)),
    )
    return nested(2, text(1, name), nested(9, body, number(2, temporality)))


def metrics_data(*metrics: bytes, **resource: str | bool | int | float) -> bytes:
    return nested(1, nested(1, attributes(1, resource)), nested(2, *metrics))
