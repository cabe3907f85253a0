"""Values for any message of the protocol, generated from the schema tables."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import random
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from codegen.generate import message_module
from codegen.layout import present_fields
from codegen.notation import Field, MessageSpec, StructSpec, load_messages
from ruslo.protocol import modules
from ruslo.protocol.apis import KAFKA_4_4_VERSIONS
from ruslo.protocol.message import Message, Struct

FIRST_UNKNOWN_TAG = 10_000

_INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
_ALPHABET = "aZ09._- \t\x00é߿ࠀ中￿😀"


@cache
def all_messages() -> dict[str, MessageSpec]:
    """Every message that has a version, by name."""
    return {message.name: message for message in load_messages() if not message.versions.empty}


def versions_of(message: MessageSpec) -> range:
    return range(message.versions.low, message.versions.high + 1)


def message_versions() -> Iterator[tuple[MessageSpec, int]]:
    for message in all_messages().values():
        for version in versions_of(message):
            yield message, version


def kafka_4_3_versions() -> Iterator[tuple[MessageSpec, int]]:
    """Every message in every version that Apache Kafka 4.3 has."""
    for message, version in message_versions():
        if version < first_newer_version(message):
            yield message, version


def first_newer_version(message: MessageSpec) -> int:
    """The version of a message that Apache Kafka 4.4 added, or a number above all versions."""
    api = message.name.removesuffix("Request").removesuffix("Response")
    return KAFKA_4_4_VERSIONS.get(api, 1 << 15)


@cache
def message_class(name: str) -> type[Message]:
    """The class of any message: the generated one, or one compiled in memory if Ruslo does not use it."""
    if importlib.util.find_spec(modules.module_name(name)) is not None:
        return modules.message_class(name)
    spec = next(message for message in load_messages() if message.name == name)
    module = ModuleType(f"in_memory.{spec.module}")
    exec(message_module(spec), module.__dict__)
    sys.modules[module.__name__] = module
    found: type[Message] = getattr(module, name)
    return found


def struct_class(message: MessageSpec, name: str) -> type[Struct]:
    module = importlib.import_module(message_class(message.name).__module__)
    found: type[Struct] = getattr(module, name)
    return found


class ValueMaker:
    """Creates objects of one message in one version; only fields of that version get values.

    ``tame`` keeps numbers to what every implementation can hold in its own types (times, error codes).
    """

    def __init__(
        self,
        message: MessageSpec,
        version: int,
        source: random.Random,
        *,
        unknown_tags: bool = True,
        tame: bool = False,
    ) -> None:
        self._message = message
        self._version = version
        self._random = source
        self._tame = tame
        self._unknown_tags = unknown_tags and version >= message.flexible_from

    def random(self) -> Message:
        return self._whole(self._struct(self._message.root))

    def nulls(self) -> Message:
        """A message with null in every field that allows it; other arrays have one element."""
        return self._whole(self._struct(self._message.root, nulls=True))

    def _whole(self, value: Struct) -> Message:
        assert isinstance(value, Message)
        return value

    def _struct(self, struct: StructSpec, nulls: bool = False) -> Struct:
        values: dict[str, Any] = {}
        for field in present_fields(struct):
            if self._version not in field.versions:
                continue
            if field.tag is not None and not nulls and self._random.random() < 0.4:
                continue
            values[field.attribute] = self._field(field, nulls)
        if self._unknown_tags and not nulls and self._random.random() < 0.2:
            tag = FIRST_UNKNOWN_TAG + self._random.randrange(1000)
            values["unknown_tags"] = {tag: self._bytes(200), tag + 1: b""}
        return struct_class(self._message, struct.name)(**values)

    def _field(self, field: Field, nulls: bool) -> Any:
        if self._version in field.nullable and (nulls or self._random.random() < 0.2):
            return None
        if field.is_array:
            # With 130 elements the compact length takes two bytes.
            small = field.struct is None
            length = 1 if nulls else self._random.choice((0, 1, 1, 2, 3, 130) if small else (0, 1, 1, 2))
            return [self._element(field, nulls) for _ in range(length)]
        return self._element(field, nulls)

    def _element(self, field: Field, nulls: bool) -> Any:
        if field.struct is not None:
            return self._struct(self._message.structs[field.struct], nulls)
        kind = field.element
        match kind:
            case "bool":
                return self._random.random() < 0.5
            case "float64":
                return float(
                    self._random.choice((0, 1, -1, 0.5, 1e300, -2.25, self._random.randrange(10**9)))
                )
            case "uuid":
                return self._random.randbytes(16)
            case "string":
                return self._text()
            case "bytes" | "records":
                return self._bytes(300)
        return self._integer(field)

    def _integer(self, field: Field) -> int:
        bits = _INT_BITS[field.element]
        if self._tame:
            if "ErrorCode" in field.name:
                return self._random.randrange(0, 90)
            return self._random.randrange(0, min(2 ** (bits - 1), 2**38))
        low, high = (
            (0, 2**bits - 1) if field.element.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        return self._random.choice((0, 1, low, high, self._random.randint(low, high)))

    def _text(self) -> str:
        length = self._random.choice((0, 1, 3, 8, 8, 130))
        return "".join(self._random.choice(_ALPHABET) for _ in range(length))

    def _bytes(self, longest: int) -> bytes:
        return self._random.randbytes(self._random.choice((0, 1, 7, longest)))


def to_json(message: MessageSpec, value: Message, version: int, *, complete: bool) -> dict[str, Any]:
    """The message as Kafka's JSON converters read it (``complete``) or write it.

    They write records as nothing, and no tagged fields that hold their defaults.
    """
    return _struct_to_json(message, message.root, value, version, complete)


def _struct_to_json(
    message: MessageSpec, struct: StructSpec, value: Struct, version: int, complete: bool
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    default = struct_class(message, struct.name)()
    for field in present_fields(struct):
        if version not in field.versions:
            continue
        item = getattr(value, field.attribute)
        if field.tag is not None and not complete and item == getattr(default, field.attribute):
            continue
        name = field.name[0].lower() + field.name[1:]
        if item is None:
            result[name] = None
        elif field.is_array:
            result[name] = [_element_to_json(message, field, element, version, complete) for element in item]
        else:
            result[name] = _element_to_json(message, field, item, version, complete)
    return result


def _element_to_json(message: MessageSpec, field: Field, value: Any, version: int, complete: bool) -> Any:
    if field.struct is not None:
        return _struct_to_json(message, message.structs[field.struct], value, version, complete)
    if field.element == "uuid":
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if field.element == "bytes" or (field.element == "records" and complete):
        return base64.b64encode(value).decode()
    if field.element == "records":
        return ""
    return value
