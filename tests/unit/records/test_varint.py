from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.records.varint import decode_uvarint, decode_varint, decode_varlong, encode_uvarint, encode_varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_known_bytes(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_64_bit_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 10
    assert decode_varlong(b"\xff" + encoded + b"\xff", 1) == (value, 1 + len(encoded))


@given(st.integers(0, 2**32 - 1))
def test_unsigned_round_trip(value: int) -> None:
    encoded = encode_uvarint(value)
    assert decode_uvarint(encoded, 0) == (value, len(encoded))


def test_numbers_over_64_bits_raise() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        encode_varint(2**63)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_truncated_numbers(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="data ends inside the varint"):
        decode_varint(data, 0)


@pytest.mark.parametrize("data", [b"\xff" * 5 + b"\x00", b"\xff\xff\xff\xff\x10"])
def test_numbers_too_long_for_32_bits(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="more than 32 bits"):
        decode_varint(data, 0)


@pytest.mark.parametrize("data", [b"\xff" * 10 + b"\x00", b"\xff" * 9 + b"\x02"])
def test_numbers_too_long_for_64_bits(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="more than 64 bits"):
        decode_varlong(data, 0)
