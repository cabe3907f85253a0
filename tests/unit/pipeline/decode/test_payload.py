from __future__ import annotations

import pyarrow as pa

from ruslo.pipeline.decode.payload import StringDecoder, decode_each


def test_utf8_is_decoded() -> None:
    decoded = StringDecoder().decode(pa.array(["grün".encode(), None, b""], pa.binary()))
    assert decoded.column.to_pylist() == ["grün", None, ""]
    assert decoded.column.type == pa.string()
    assert not decoded.errors


def test_invalid_utf8_is_reported_by_row() -> None:
    decoded = StringDecoder().decode(pa.array([b"good", b"\xff\xfe", None, b"\xc3"], pa.binary()))
    assert decoded.column.to_pylist() == ["good", None, None, None]
    assert set(decoded.errors) == {1, 3}
    assert "UnicodeDecodeError" in decoded.errors[1]


def test_a_value_that_arrow_rejects_affects_only_its_row() -> None:
    decoded = decode_each(pa.array([b"1", b"300", b"3"], pa.binary()), int, pa.int8())
    assert decoded.column.to_pylist() == [1, None, 3]
    assert set(decoded.errors) == {1}
