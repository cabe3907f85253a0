"""Varints of the record format: zigzag, seven bits per byte, low bits first.

Lengths and counts are signed 32-bit numbers (at most 5 bytes), timestamp deltas signed 64-bit numbers (at
most 10 bytes). Compact lengths in KRaft control records are unsigned.
"""

from __future__ import annotations

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1
_SMALL = [bytes([(value << 1) ^ (value >> 63)]) for value in range(-64, 64)]
"""The one-byte encodings of -64..63, which are the most frequent numbers."""


def encode_uvarint(value: int) -> bytes:
    """Encode an unsigned number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Encode a signed number with zigzag; 32- and 64-bit numbers have the same encoding."""
    if -64 <= value < 64:
        return _SMALL[value + 64]
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise ValueError(f"{value} does not fit into 64 bits")
    return encode_uvarint((value << 1) ^ (value >> 63))


def decode_uvarint(buf: ReadBuffer, pos: int, bits: int = 32) -> tuple[int, int]:
    """Read an unsigned number of at most ``bits`` bits; returns it and the position after it."""
    value = 0
    start = pos
    end = len(buf)
    for shift in range(0, bits, 7):
        if pos >= end:
            raise ProtocolError(f"the data ends inside the varint at byte {start}")
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return value, pos
    raise ProtocolError(f"the varint at byte {start} has more than {bits} bits")


def decode_varint(buf: ReadBuffer, pos: int) -> tuple[int, int]:
    """Read a signed 32-bit number; returns it and the position after it."""
    value, pos = decode_uvarint(buf, pos)
    return (value >> 1) ^ -(value & 1), pos


def decode_varlong(buf: ReadBuffer, pos: int) -> tuple[int, int]:
    """Read a signed 64-bit number; returns it and the position after it."""
    value, pos = decode_uvarint(buf, pos, 64)
    return (value >> 1) ^ -(value & 1), pos
