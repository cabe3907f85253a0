"""Maps Avro schemas to Spark types as Spark's own Avro data source does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from ruslo.model.errors import ConfigError

_PRIMITIVES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
}
_LOGICAL: Final = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}
_MAX_DECIMAL_DIGITS: Final = 38

AvroSchema: TypeAlias = str | list[Any] | dict[str, Any]
_Named: TypeAlias = dict[str, Mapping[str, object]]


def parse_avro_schema(text: str) -> AvroSchema:
    """Accepts JSON, or the bare name of a primitive type such as ``string``."""
    try:
        schema: AvroSchema = msgspec.json.decode(text, type=AvroSchema)
        return schema
    except msgspec.DecodeError as error:
        if text.strip() in _PRIMITIVES:
            return text.strip()
        raise ConfigError(f"the Avro schema is not JSON ({error}): {text}") from None


def spark_type(schema: str) -> str:
    """The Spark type of the schema, as DDL; raises ConfigError if Spark has no such type."""
    return _type(parse_avro_schema(schema), {}, ())


def _type(schema: object, named: _Named, inside: tuple[str, ...]) -> str:
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        return _by_name(schema, named, inside)
    if not isinstance(schema, dict):
        raise ConfigError(f"invalid Avro schema: {schema!r}")
    kind = schema.get("type")
    if kind in ("record", "error"):
        return _record(schema, named, inside)
    if kind == "enum":
        _remember(schema, named)
        return "STRING"
    if kind == "fixed":
        _remember(schema, named)
        return _decimal(schema) if schema.get("logicalType") == "decimal" else "BINARY"
    if kind == "array":
        return f"ARRAY<{_item(schema.get('items'), named, inside)}>"
    if kind == "map":
        return f"MAP<STRING, {_item(schema.get('values'), named, inside)}>"
    if kind == "bytes" and schema.get("logicalType") == "decimal":
        return _decimal(schema)
    logical = _LOGICAL.get((str(kind), str(schema.get("logicalType"))))
    return logical or _type(kind, named, inside)


def _item(schema: object, named: _Named, inside: tuple[str, ...]) -> str:
    # Items that take no bytes would let a small record claim billions of them.
    if schema == "null":
        raise ConfigError("Avro arrays and maps of null are not supported")
    return _type(schema, named, inside)


def _by_name(name: str, named: _Named, inside: tuple[str, ...]) -> str:
    if name in _PRIMITIVES:
        return _PRIMITIVES[name]
    found = named.get(name) or named.get(name.rpartition(".")[2])
    if found is None:
        raise ConfigError(f"the Avro schema does not define the type {name!r}")
    return _type(found, named, inside)


def _record(schema: Mapping[str, object], named: _Named, inside: tuple[str, ...]) -> str:
    name = _remember(schema, named)
    if name in inside:
        raise ConfigError(f"the Avro record {name} contains itself, which Spark types cannot")
    fields = schema.get("fields")
    if not isinstance(fields, list) or not fields:
        raise ConfigError(f"the Avro record {name} has no fields")
    parts = [f"`{field['name']}`: {_type(field['type'], named, (*inside, name))}" for field in fields]
    return f"STRUCT<{', '.join(parts)}>"


def _union(branches: list[object], named: _Named, inside: tuple[str, ...]) -> str:
    others = [branch for branch in branches if branch != "null"]
    if len(others) == 1:
        return _type(others[0], named, inside)
    if others and all(branch in ("int", "long") for branch in others):
        return "BIGINT"
    if others and all(branch in ("float", "double") for branch in others):
        return "DOUBLE"
    raise ConfigError(
        f"the Avro union {msgspec.json.encode(branches).decode()} has no Spark type: use null and one other "
        f"type, int and long, or float and double"
    )


def _decimal(schema: Mapping[str, object]) -> str:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or precision > _MAX_DECIMAL_DIGITS:
        raise ConfigError(
            f"an Avro decimal has precision {precision}; Spark supports up to {_MAX_DECIMAL_DIGITS}"
        )
    return f"DECIMAL({precision}, {scale})"


def _remember(schema: Mapping[str, object], named: _Named) -> str:
    name = str(schema.get("name", ""))
    named[name] = schema
    namespace = schema.get("namespace")
    if isinstance(namespace, str):
        named[f"{namespace}.{name}"] = schema
    return name
