"""The columns of a query over topics, as Spark DDL."""

from __future__ import annotations

import re
from typing import Final

from ruslo.pipeline.source.options import (
    DELIVERY_COUNT_COLUMN,
    ERROR_COLUMN,
    HEADERS_COLUMN,
    Payload,
    SourceOptions,
)

_TYPES: Final = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    HEADERS_COLUMN: "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    DELIVERY_COUNT_COLUMN: "INT",
    ERROR_COLUMN: "STRUCT<reason: STRING, key: BINARY, value: BINARY>",
}
_WHOLE_TYPE: Final = re.compile(r"\s*(struct|array|map)\s*<", re.IGNORECASE)


def schema_ddl(options: SourceOptions) -> str:
    types = {**_TYPES, "key": _payload_type(options.key), "value": _payload_type(options.value)}
    return ", ".join(f"{name} {types[name]}" for name in options.columns)


def _payload_type(payload: Payload) -> str:
    if payload.format == "binary":
        return "BINARY"
    if payload.format == "string":
        return "STRING"
    assert payload.schema is not None, "options were parsed"
    if payload.format == "avro":
        from ruslo.pipeline.decode.avro_types import spark_type

        return spark_type(payload.schema)
    # A list of fields is a struct; a complete type is used as it is.
    return payload.schema if _WHOLE_TYPE.match(payload.schema) else f"STRUCT<{payload.schema}>"
