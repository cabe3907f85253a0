"""Avro values, by a schema that somebody gave for the topic.

Kafka does not know schemas, and a registry is no part of it. A value may begin with the five bytes that
serializers of registries put there (a zero and the schema's number); they are passed over.
"""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from ruslo.model.errors import RusloError
from ruslo.model.extras import install_extra

_SCHEMA_MAX_CHARS = 200_000
_VALUE_MAX_BYTES = 1024 * 1024
_TOPICS_MAX = 200
_REGISTRY_PREFIX = 5


class AvroMistake(RusloError):
    """The schema is none, or the value does not have it."""


class AvroSchema:
    def __init__(self, text: str) -> None:
        if len(text) > _SCHEMA_MAX_CHARS:
            raise AvroMistake(f"A schema of more than {_SCHEMA_MAX_CHARS} characters is not taken.")
        try:
            import fastavro
            from fastavro.schema import SchemaParseException, UnknownType
        except ImportError:
            raise AvroMistake(f"Avro needs the package fastavro: {install_extra('console')}") from None
        self.text = text
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise AvroMistake(f"The schema is not JSON: {error}") from None
        try:
            self._schema = fastavro.parse_schema(parsed)
        except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AvroMistake(f"This is no Avro schema: {error!r}") from None
        if any(_takes_no_bytes(items, _named(parsed)) for items in _items_of_arrays(parsed)):
            # Two bytes of such a value can claim billions of items.
            raise AvroMistake("Arrays of items that take no bytes are not decoded here.")

    def decode(self, data: bytes) -> str:
        """As indented JSON; what JSON cannot say (bytes, decimals, times) in its usual words."""
        if len(data) > _VALUE_MAX_BYTES:
            raise AvroMistake(f"Values of more than {_VALUE_MAX_BYTES} bytes are not decoded here.")
        problem: AvroMistake | None = None
        for start in (0, _REGISTRY_PREFIX) if data[:1] == b"\0" else (0,):
            try:
                return json.dumps(self._read(data[start:]), indent=2, ensure_ascii=False, default=str)
            except AvroMistake as mistake:
                problem = mistake
        assert problem is not None
        raise problem

    def _read(self, data: bytes) -> Any:
        import fastavro

        stream = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, self._schema, None)
        except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
            raise AvroMistake(f"The bytes do not have the schema: {error or type(error).__name__}") from None
        if stream.tell() != len(data):
            raise AvroMistake(
                f"{len(data) - stream.tell()} bytes are left over: this is another schema's value."
            )
        return value


class AvroSchemas:
    """By topic, in this console's memory only."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, AvroSchema] = OrderedDict()

    def of(self, topic: str) -> AvroSchema | None:
        return self._known.get(topic)

    def set(self, topic: str, schema: AvroSchema | None) -> None:
        self._known.pop(topic, None)
        if schema is not None:
            self._known[topic] = schema
        while len(self._known) > _TOPICS_MAX:
            self._known.popitem(last=False)


def _parts(schema: object) -> Iterator[dict[str, Any]]:
    """Every schema within it that is written out, itself too."""
    if isinstance(schema, list):
        for each in schema:
            yield from _parts(each)
    elif isinstance(schema, dict):
        yield schema
        for name in ("type", "items", "values"):
            yield from _parts(schema.get(name))
        for field in schema.get("fields", ()):
            yield from _parts(field.get("type"))


def _items_of_arrays(schema: object) -> list[object]:
    return [part.get("items") for part in _parts(schema) if part.get("type") == "array"]


def _named(schema: object) -> dict[str, object]:
    """By name, with or without its namespace."""
    return {str(part["name"]).rpartition(".")[2]: part for part in _parts(schema) if "name" in part}


def _takes_no_bytes(schema: object, named: Mapping[str, object], seen: frozenset[str] = frozenset()) -> bool:
    """Whether its values are nothing: nulls, empty records, or records of such."""
    if isinstance(schema, str):
        name = schema.rpartition(".")[2]
        known = named.get(name)
        return schema == "null" or (
            known is not None and name not in seen and _takes_no_bytes(known, named, seen | {name})
        )
    if not isinstance(schema, dict):
        return False  # a union begins with the number of its branch
    kind = schema.get("type")
    if kind == "record":
        return all(_takes_no_bytes(field.get("type"), named, seen) for field in schema.get("fields", ()))
    return (kind == "fixed" and schema.get("size") == 0) or _takes_no_bytes(kind, named, seen)
