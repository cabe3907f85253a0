"""Decodes Avro values with a schema that the user gave for the topic.

Kafka does not include a schema registry. A value may start with the five bytes that registry serializers add
(a zero byte and the schema id); the decoder skips them.
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
_REGISTRY_PREFIX_BYTES = 5


class AvroError(RusloError):
    """The schema is invalid, or a value does not match it."""


class AvroSchema:
    def __init__(self, text: str) -> None:
        if len(text) > _SCHEMA_MAX_CHARS:
            raise AvroError(f"The schema is too long. Use at most {_SCHEMA_MAX_CHARS} characters.")
        try:
            import fastavro
            from fastavro.schema import SchemaParseException, UnknownType
        except ImportError:
            raise AvroError(f"Avro needs the package fastavro: {install_extra('console')}") from None
        self.text = text
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise AvroError(f"The schema is not JSON: {error}") from None
        try:
            self._schema = fastavro.parse_schema(parsed)
        except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AvroError(f"The schema is not a valid Avro schema: {error!r}") from None
        arrays = [part for part in _parts(parsed) if part.get("type") == "array"]
        if any(_is_zero_length(array.get("items"), _named(parsed)) for array in arrays):
            # Two bytes of such a value could declare billions of items.
            raise AvroError("The console does not decode arrays of zero-length items.")

    def decode(self, data: bytes) -> str:
        """The value as indented JSON; bytes, decimals and times become strings."""
        if len(data) > _VALUE_MAX_BYTES:
            raise AvroError(
                f"The console decodes values of at most {_VALUE_MAX_BYTES} bytes. Download the value instead."
            )
        problem: AvroError | None = None
        for start in (0, _REGISTRY_PREFIX_BYTES) if data[:1] == b"\0" else (0,):
            try:
                return json.dumps(self._read(data[start:]), indent=2, ensure_ascii=False, default=str)
            except AvroError as error:
                problem = error
        assert problem is not None
        raise problem

    def _read(self, data: bytes) -> Any:
        import fastavro

        stream = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, self._schema, None)
        except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
            raise AvroError(
                f"The value does not match the schema: {str(error) or type(error).__name__}"
            ) from None
        if stream.tell() != len(data):
            raise AvroError(
                f"The value does not match the schema: {len(data) - stream.tell()} bytes are left over."
            )
        return value


class AvroSchemas:
    """Schemas by topic, in the console's memory only."""

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
    """The schema and every schema that is nested in it."""
    if isinstance(schema, list):
        for each in schema:
            yield from _parts(each)
    elif isinstance(schema, dict):
        yield schema
        for name in ("type", "items", "values"):
            yield from _parts(schema.get(name))
        for field in schema.get("fields", ()):
            yield from _parts(field.get("type"))


def _named(schema: object) -> dict[str, object]:
    """Named schemas by name, without the namespace."""
    return {str(part["name"]).rpartition(".")[2]: part for part in _parts(schema) if "name" in part}


def _is_zero_length(schema: object, named: Mapping[str, object], seen: frozenset[str] = frozenset()) -> bool:
    """Whether its values have no bytes: null, empty records, or records of such fields."""
    if isinstance(schema, str):
        name = schema.rpartition(".")[2]
        known = named.get(name)
        return schema == "null" or (
            known is not None and name not in seen and _is_zero_length(known, named, seen | {name})
        )
    if not isinstance(schema, dict):
        return False  # a union starts with the index of its branch
    kind = schema.get("type")
    if kind == "record":
        return all(_is_zero_length(field.get("type"), named, seen) for field in schema.get("fields", ()))
    return (kind == "fixed" and schema.get("size") == 0) or _is_zero_length(kind, named, seen)
