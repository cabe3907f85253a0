"""Decodes Avro with one schema: plain binary, without a container or a schema registry prefix."""

from __future__ import annotations

import io

import fastavro
import pyarrow as pa

from ruslo.model.errors import ConfigError
from ruslo.pipeline.decode.avro_types import AvroSchema, parse_avro_schema
from ruslo.pipeline.decode.payload import Decoded, PayloadError, decode_each

_RAW_LOGICAL_TYPES = frozenset({"time-millis", "time-micros", "uuid", "duration"})
"""Types that Spark reads as the number, text or bytes that encode them."""


class AvroDecoder:
    def __init__(self, schema: str, kind: pa.DataType) -> None:
        try:
            self._schema = fastavro.parse_schema(_plain(parse_avro_schema(schema)))
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            raise ConfigError(f"invalid Avro schema: {error}") from error
        self._kind = kind

    def decode(self, column: pa.Array) -> Decoded:
        return decode_each(column, self._decode_one, self._kind)

    def _decode_one(self, content: bytes) -> object:
        stream = io.BytesIO(content)
        value = fastavro.schemaless_reader(stream, self._schema, None)
        left = len(content) - stream.tell()
        if left:
            raise PayloadError(f"{left} bytes follow the Avro value: it was written with another schema")
        return value


def _plain(schema: AvroSchema) -> AvroSchema:
    """The schema without the logical types that Spark cannot represent."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if isinstance(schema, dict):
        return {
            name: _plain(part)
            for name, part in schema.items()
            if not (name == "logicalType" and part in _RAW_LOGICAL_TYPES)
        }
    return schema
