"""A record as a line of JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Protocol


class ReadRecord(Protocol):
    """What records of consumers and of share consumers have in common."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


def json_line(record: ReadRecord) -> bytes:
    """The record as a line of JSON, which ``ruslo produce --json`` converts back to the same record."""
    return json.dumps(record_fields(record), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def record_fields(record: ReadRecord) -> dict[str, object]:
    """The record as JSON fields; bytes that are not UTF-8 become ``key_base64`` or ``value_base64``."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    fields |= _text_or_base64("key", record.key)
    fields |= _text_or_base64("value", record.value)
    fields["headers"] = [{"name": name} | _text_or_base64("value", value) for name, value in record.headers]
    return fields


def _text_or_base64(name: str, data: bytes | None) -> dict[str, object]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
