from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.pipeline.decode.json_payload import JsonDecoder

ORDER = pa.struct(
    [
        pa.field("id", pa.int64()),
        pa.field("customer", pa.struct([pa.field("name", pa.string())])),
        pa.field("lines", pa.list_(pa.int32())),
        pa.field("tags", pa.map_(pa.string(), pa.string())),
    ]
)


def decode_one(kind: pa.DataType, text: str | bytes) -> object:
    content = text.encode() if isinstance(text, str) else text
    decoded = JsonDecoder(kind).decode(pa.array([content], pa.binary()))
    assert not decoded.errors, decoded.errors
    return decoded.column.to_pylist()[0]


def reason(kind: pa.DataType, text: str | bytes) -> str:
    content = text.encode() if isinstance(text, str) else text
    decoded = JsonDecoder(kind).decode(pa.array([content], pa.binary()))
    assert decoded.column.to_pylist() == [None]
    return decoded.errors[0]


def test_nested_values() -> None:
    text = '{"id": 7, "customer": {"name": "Ada"}, "lines": [1, null], "tags": {"a": "b"}, "more": true}'
    assert decode_one(ORDER, text) == {
        "id": 7,
        "customer": {"name": "Ada"},
        "lines": [1, None],
        "tags": [("a", "b")],
    }


def test_numbers_read_as_text_are_unchanged_beside_a_decimal() -> None:
    kind = pa.struct([pa.field("text", pa.string()), pa.field("price", pa.decimal128(6, 2))])
    assert decode_one(kind, '{"text": 1.5, "price": 1.5}') == {"text": "1.5", "price": Decimal("1.50")}
    assert decode_one(kind, '{"text": {"x": [2.25]}}') == {"text": '{"x":[2.25]}', "price": None}


def test_missing_fields_are_null() -> None:
    assert decode_one(ORDER, '{"id": null}') == {"id": None, "customer": None, "lines": None, "tags": None}
    assert decode_one(ORDER, "null") is None


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.int32(), "-5", -5),
        (pa.float64(), "2", 2.0),
        (pa.float64(), '"Infinity"', float("inf")),
        (pa.bool_(), "true", True),
        (pa.string(), '"x"', "x"),
        (pa.string(), '{"a": [1]}', '{"a":[1]}'),
        (pa.binary(), '"AQI="', b"\x01\x02"),
        (pa.date32(), '"2026-01-31"', datetime.date(2026, 1, 31)),
        (pa.decimal128(10, 2), "12345678.905", Decimal("12345678.91")),
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00:00+02:00"', "2026-01-31T10:00:00+00:00"),
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00:00Z"', "2026-01-31T12:00:00+00:00"),
        (pa.timestamp("us", "UTC"), "60", "1970-01-01T00:01:00+00:00"),
        (pa.timestamp("us"), '"2026-01-31 12:00:00"', "2026-01-31T12:00:00"),
    ],
)
def test_values_of_spark_types(kind: pa.DataType, text: str, expected: object) -> None:
    found = decode_one(kind, text)
    assert (found.isoformat() if isinstance(found, datetime.datetime) else found) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (ORDER, '{"id": "7"}', 'id: a whole number of 64 bits was expected, not "7"'),
        (ORDER, '{"customer": {"name": 1}, "id": 1.5}', "id: a whole number of 64 bits"),
        (ORDER, "[1]", "an object was expected, not [1]"),
        (ORDER, '{"id": 1', "not JSON"),
        (ORDER, "", "not JSON"),
        (ORDER, b'{"id": 1} \xff', "not JSON"),
        (pa.int8(), "128", "8 bits"),
        (pa.int8(), "true", "8 bits"),
        (pa.float64(), '"1"', "a number"),
        (pa.bool_(), "1", "true or false"),
        (pa.binary(), '"no base64"', "base64"),
        (pa.date32(), '"31.1.2026"', "a date such as"),
        (pa.timestamp("us", "UTC"), '"yesterday"', "a time such as"),
        (pa.timestamp("us", "UTC"), "1e300", "a time such as"),
        (pa.decimal128(4, 2), "100", "4 digits"),
        (pa.decimal128(4, 2), "99.999", "4 digits"),
        (pa.decimal128(4, 2), "1e999999", "4 digits"),
    ],
)
def test_errors_name_the_field_and_the_reason(kind: pa.DataType, text: str | bytes, expected: str) -> None:
    assert expected in reason(kind, text)


def test_invalid_record_does_not_affect_others() -> None:
    column = pa.array([b'{"id": 1}', b"junk", None, b'{"id": 4}'], pa.binary())
    decoded = JsonDecoder(pa.struct([pa.field("id", pa.int32())])).decode(column)
    assert decoded.column.to_pylist() == [{"id": 1}, None, None, {"id": 4}]
    assert set(decoded.errors) == {1}


def test_deep_nesting_is_an_error_of_the_record() -> None:
    assert reason(pa.string(), "[" * 100_000)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_decoded_or_reported(contents: list[bytes]) -> None:
    decoded = JsonDecoder(ORDER).decode(pa.array(contents, pa.binary()))
    assert len(decoded.column) == len(contents)
    assert all(decoded.column[row].as_py() is None for row in decoded.errors)
