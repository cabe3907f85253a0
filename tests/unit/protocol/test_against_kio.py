"""The generated codecs compared with kio, an independent implementation of the protocol."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import random
import uuid
from typing import Any

from kio.schema.index import LoadableEntityType, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from codegen.layout import present_fields
from codegen.notation import MessageSpec, StructSpec
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.message import Struct
from tests.support.protocol.values import ValueMaker, kafka_4_3_versions

KINDS: dict[str, LoadableEntityType] = {
    "request": EntityType.request,
    "response": EntityType.response,
    "header": EntityType.header,
    "data": EntityType.data,
}
UNKNOWN_TO_KIO = {"QuorumStateData", "ProducerSnapshot"}
VALUES_EACH = 3


def test_kio_reads_and_writes_the_same_bytes() -> None:
    compared = 0
    unknown = set()
    for message, version in kafka_4_3_versions():
        if message.kind not in KINDS:
            continue  # kio has no metadata and coordinator records
        entity = _kio_class(message, version)
        if entity is None:
            unknown.add(message.name)
            continue
        source = random.Random(f"{message.name} {version}")
        for _ in range(VALUES_EACH):
            ours = ValueMaker(message, version, source, unknown_tags=False, tame=True).random()
            encoded = ours.to_bytes(version)
            theirs, size = entity_reader(entity)(encoded, 0)
            assert size == len(encoded), (message.name, version)
            assert _plain(theirs) == _values(message, message.root, ours, version), (message.name, version)
            out = io.BytesIO()
            entity_writer(entity)(out, theirs)
            assert out.getvalue() == encoded, (message.name, version)
            compared += 1
    assert unknown == UNKNOWN_TO_KIO
    assert compared == 625 * VALUES_EACH


def _kio_class(message: MessageSpec, version: int) -> Any:
    name = message.module.replace("kraft", "k_raft")
    if message.kind in ("request", "response"):
        name = name.removesuffix(f"_{message.kind}")
    path = schema_name_map.get(name, {}).get(version, {}).get(KINDS[message.kind])
    if path is None:
        return None
    module, _, class_name = path.partition(":")
    return getattr(importlib.import_module(module), class_name)


def _plain(value: Any) -> Any:
    """A value of kio in plain types; entities are lists of their fields."""
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value


def _values(message: MessageSpec, struct: StructSpec, value: Struct, version: int) -> list[Any]:
    values: list[Any] = []
    for field in present_fields(struct):
        if version not in field.versions:
            continue
        item: Any = getattr(value, field.attribute)
        if field.struct is not None and item is not None:
            below = message.structs[field.struct]
            if field.is_array:
                item = [_values(message, below, element, version) for element in item]
            else:
                item = _values(message, below, item, version)
        elif field.type == "uuid" and item == ZERO_UUID:
            item = None  # kio uses None for the zero uuid
        values.append(item)
    return values
