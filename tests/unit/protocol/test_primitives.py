from __future__ import annotations

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.protocol.primitives import read_tag, read_unknown_tags, read_uvarint, write_tags, write_uvarint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (1, b"\x01"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (16_383, b"\xff\x7f"),
        (16_384, b"\x80\x80\x01"),
        (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_unsigned_varints(value: int, encoded: bytes) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert out == encoded
    assert read_uvarint(b"xx" + encoded + b"yy", 2) == (value, 2 + len(encoded))


def test_a_varint_holds_32_bits_in_five_bytes() -> None:
    with pytest.raises(ProtocolError, match="more than five bytes"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x00", 0)
    with pytest.raises(ProtocolError, match="does not fit 32 bits"):
        read_uvarint(b"\xff\xff\xff\xff\x1f", 0)
    assert read_uvarint(b"\x80\x80\x80\x80\x00", 0) == (0, 5), "an overlong encoding, which Kafka accepts"


def test_tags_are_written_in_order() -> None:
    out = bytearray()
    write_tags(out, {5: b"five"}, {300: b"", 1: b"one"})
    assert out == b"\x03\x01\x03one\x05\x04five\xac\x02\x00"
    assert read_unknown_tags(out, 1, len(out), out[0]) == ({1: b"one", 5: b"five", 300: b""}, len(out))


def test_a_tagged_field_must_fit() -> None:
    assert read_tag(b"\x01\x03abc", 0, 5, -1) == (1, 2, 5)
    with pytest.raises(ProtocolError, match="length 3 exceeds the 2 remaining bytes"):
        read_tag(b"\x01\x03abc", 0, 4, -1)
    with pytest.raises(ProtocolError, match="tag 1 after tag 1"):
        read_tag(b"\x01\x03abc", 0, 5, 1)


@pytest.mark.parametrize("tag", [5, -1, 2**32])
def test_unknown_tags_that_cannot_be_written(tag: int) -> None:
    with pytest.raises(ProtocolError, match="cannot encode unknown tag"):
        write_tags(bytearray(), {5: b""}, {tag: b""})
