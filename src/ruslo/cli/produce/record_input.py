"""Input of ``ruslo produce``: delimited records with an optional key, or JSON lines."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

Headers = Sequence[tuple[str, bytes | None]]

_CHUNK_BYTES = 256 * 1024
_MAX_LONG = 2**63 - 1
_JSON_FIELDS = frozenset(
    {"key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp", "topic", "offset"}
)


class InputRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def split_stream(stream: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """Pieces between delimiters, as they arrive. The last one needs no delimiter unless it is empty."""
    # read1 returns available data, so records typed or piped by `tail -f` are sent at once.
    read = stream.read1 if hasattr(stream, "read1") else stream.read
    pending = b""
    while chunk := read(_CHUNK_BYTES):
        *whole, pending = (pending + chunk).split(delimiter)
        yield from whole
    if pending:
        yield pending


def delimited_records(
    stream: BinaryIO, delimiter: bytes, key_delimiter: bytes | None, null: bytes | None
) -> Iterator[InputRecord]:
    def or_null(data: bytes) -> bytes | None:
        return None if null is not None and data == null else data

    for piece in split_stream(stream, delimiter):
        if key_delimiter is not None and key_delimiter in piece:
            key, _, value = piece.partition(key_delimiter)
            yield InputRecord(or_null(key), or_null(value))
        else:
            yield InputRecord(None, or_null(piece))


def json_records(stream: BinaryIO) -> Iterator[InputRecord]:
    """Raises ValueError with the line number."""
    for number, line in enumerate(split_stream(stream, b"\n"), 1):
        if line.strip():
            try:
                yield json_record(json.loads(line))
            except (ValueError, UnicodeDecodeError) as error:
                raise ValueError(f"line {number}: {error}") from error
            except RecursionError:
                raise ValueError(f"line {number}: the JSON is nested too deeply") from None


def json_record(fields: object) -> InputRecord:
    """A record from an object with the fields of ``ruslo consume -o json``; all are optional."""
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object with key and value, got {fields!r:.60}")
    unknown = sorted(set(fields) - _JSON_FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}: use {', '.join(sorted(_JSON_FIELDS))}")
    return InputRecord(
        key=_data(fields, "key"),
        value=_data(fields, "value"),
        headers=_headers(fields.get("headers") or []),
        partition=_number(fields, "partition"),
        # -1 means a record without a timestamp.
        timestamp_ms=None if fields.get("timestamp") == -1 else _number(fields, "timestamp"),
    )


def _data(fields: Mapping[str, object], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(str(encoded), validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}_base64 is not base64: {error}") from None
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    # An object or number is sent as JSON text.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(headers: object) -> list[tuple[str, bytes | None]]:
    if isinstance(headers, dict):
        return [(name, _data({"value": value}, "value")) for name, value in headers.items()]
    if not isinstance(headers, list) or not all(isinstance(h, dict) and "name" in h for h in headers):
        raise ValueError('headers must be {"name": "value", …} or [{"name": …, "value": …}, …]')
    return [(str(header["name"]), _data(header, "value")) for header in headers]


def _number(fields: Mapping[str, object], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_LONG:
        raise ValueError(f"{name} must be an integer from 0 to {_MAX_LONG}, got {value!r}")
    return value
