from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.model.errors import ConfigError
from ruslo.pipeline.decode.avro_payload import AvroDecoder
from ruslo.pipeline.decode.avro_types import spark_type

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "shop.State"]},
        {"name": "lines", "type": {"type": "array", "items": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "sum",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
        },
        {"name": "trace", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
KIND = pa.struct(
    [
        pa.field("id", pa.int64()),
        pa.field("note", pa.string()),
        pa.field("state", pa.string()),
        pa.field("before", pa.string()),
        pa.field("lines", pa.list_(pa.int32())),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("sum", pa.decimal128(8, 2)),
        pa.field("trace", pa.string()),
    ]
)
VALUE = {
    "id": 7,
    "note": None,
    "state": "PAID",
    "before": "NEW",
    "lines": [1, 2],
    "at": datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC),
    "sum": Decimal("12.50"),
    "trace": "0b54b9a6-0000-4000-8000-000000000000",
}


def encoded(value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, ORDER, value)
    return out.getvalue()


def test_the_type_of_a_schema() -> None:
    assert spark_type(json.dumps(ORDER)) == (
        "STRUCT<`id`: BIGINT, `note`: STRING, `state`: STRING, `before`: STRING, `lines`: ARRAY<INT>, "
        "`at`: TIMESTAMP, `sum`: DECIMAL(8, 2), `trace`: STRING>"
    )
    assert spark_type("string") == "STRING"
    assert spark_type('["null", "int", "long"]') == "BIGINT"
    assert spark_type('{"type": "map", "values": ["null", "double"]}') == "MAP<STRING, DOUBLE>"
    assert spark_type('{"type": "fixed", "name": "f", "size": 4}') == "BINARY"
    assert spark_type('{"type": "int", "logicalType": "date"}') == "DATE"


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "not JSON"),
        ('["int", "string"]', "has no Spark type"),
        ('{"type": "array", "items": "null"}', "of null"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}',
            "contains itself",
        ),
        ('"Unknown"', "does not define the type 'Unknown'"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 50}', "precision 50"),
    ],
)
def test_unsupported_schemas_are_rejected(schema: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        spark_type(schema)


def test_values_are_decoded() -> None:
    decoded = AvroDecoder(json.dumps(ORDER), KIND).decode(pa.array([encoded(VALUE), None], pa.binary()))
    assert not decoded.errors
    assert decoded.column.to_pylist() == [VALUE, None]


def test_bytes_of_another_schema_are_errors() -> None:
    good = encoded(VALUE)
    column = pa.array([good, good[:-1], good + b"\x00", b""], pa.binary())
    decoded = AvroDecoder(json.dumps(ORDER), KIND).decode(column)
    assert set(decoded.errors) == {1, 2, 3}
    assert "written with another schema" in decoded.errors[2]


@given(st.lists(st.binary(max_size=80), max_size=5))
def test_any_bytes_are_decoded_or_reported(contents: list[bytes]) -> None:
    decoded = AvroDecoder(json.dumps(ORDER), KIND).decode(pa.array(contents, pa.binary()))
    assert len(decoded.column) == len(contents)
    assert all(decoded.column[row].as_py() is None for row in decoded.errors)
