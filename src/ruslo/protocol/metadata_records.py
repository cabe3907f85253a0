"""Records of the metadata log: three varints (frame version 1, record type, version), then the record."""

from __future__ import annotations

from functools import cache

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol._api_table import METADATA_RECORDS
from ruslo.protocol.message import Message
from ruslo.protocol.modules import message_class
from ruslo.protocol.primitives import DECODE_ERRORS, read_uvarint, write_uvarint

_FRAME_VERSION = 1
_NAMES = dict(METADATA_RECORDS)


@cache
def metadata_record_class(record_type: int) -> type[Message]:
    name = _NAMES.get(record_type)
    if name is None:
        raise ProtocolError(
            f"unknown metadata record type {record_type}: a newer release wrote it; upgrade this node"
        )
    return message_class(name)


def encode_metadata_record(record: Message, version: int) -> bytes:
    """The value of the log record that carries ``record``; its key is null."""
    if _NAMES.get(record.API_KEY) != type(record).__name__:
        raise ProtocolError(f"{type(record).__name__} is not a metadata record")
    # Encode the body first: it checks the version, which may not fit a varint.
    body = record.to_bytes(version)
    out = bytearray((_FRAME_VERSION,))
    write_uvarint(out, record.API_KEY)
    write_uvarint(out, version)
    return bytes(out + body)


def decode_metadata_record(value: ReadBuffer) -> tuple[Message, int]:
    """The record in a log record's value, and its version."""
    try:
        frame_version, pos = read_uvarint(value, 0)
        if frame_version != _FRAME_VERSION:
            raise ProtocolError(
                f"metadata record has frame version {frame_version}, only {_FRAME_VERSION} is supported"
            )
        record_type, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"malformed metadata record: {error}") from error
    record, end = metadata_record_class(record_type).read(value, pos, version)
    if end != len(value):
        raise ProtocolError(
            f"malformed metadata record: {len(value) - end} bytes follow the {type(record).__name__}"
        )
    return record, version
