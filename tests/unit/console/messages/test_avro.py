from __future__ import annotations

import io
import json

import fastavro
import pytest

from ruslo.console.messages.avro import AvroError, AvroSchema, AvroSchemas

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "lines", "type": {"type": "array", "items": "int"}},
    ],
}
ORDER = {"id": "o-1", "lines": [1, 2, 3]}


def encoded() -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), ORDER)
    return out.getvalue()


def test_values_are_decoded_with_and_without_a_registrys_prefix() -> None:
    schema = AvroSchema(json.dumps(SCHEMA))
    assert json.loads(schema.decode(encoded())) == ORDER
    assert json.loads(schema.decode(b"\x00\x00\x00\x00\x2a" + encoded())) == ORDER


@pytest.mark.parametrize(
    "data", [b"\x06ab", b"\xff\xff\xff\xff\xff", encoded() + b"more", b"\x00", b"\x02a\x01"]
)
def test_values_that_do_not_match_the_schema(data: bytes) -> None:
    with pytest.raises(AvroError, match=r"does not match the schema"):
        AvroSchema(json.dumps(SCHEMA)).decode(data)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ('{"type": "nonsense"}', "not a valid Avro schema"),
        ('{"type": "record"}', "not a valid Avro schema"),
        (
            '[{"type": "record", "name": "a.E", "fields": []}, {"type": "array", "items": "a.E"}]',
            "zero-length items",
        ),
        ("17", "not a valid Avro schema"),
        ('{"type": "array", "items": "null"}', "zero-length items"),
        (
            '["int", {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}]',
            "zero-length items",
        ),
    ],
)
def test_invalid_and_dangerous_schemas(text: str, problem: str) -> None:
    with pytest.raises(AvroError, match=problem):
        AvroSchema(text)


def test_schemas_are_stored_and_removed_by_topic() -> None:
    schemas = AvroSchemas()
    schema = AvroSchema(json.dumps(SCHEMA))
    schemas.set("t", schema)
    assert schemas.of("t") is schema
    schemas.set("t", None)
    assert schemas.of("t") is None
    for number in range(300):
        schemas.set(f"t{number}", schema)
    assert (schemas.of("t0"), schemas.of("t299")) == (None, schema)
