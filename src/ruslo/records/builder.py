"""Builds record batches: new ones, and rewritten ones."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from ruslo.model.buffers import ReadBuffer
from ruslo.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CRC_AT,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
)
from ruslo.records.compression import compress
from ruslo.records.record import HEADER_KEY_ERRORS, Record
from ruslo.records.varint import encode_varint

_CRC: Final = struct.Struct(">I")
_NULL: Final = encode_varint(-1)
_EMPTY: Final = encode_varint(0)
_NO_ATTRIBUTES: Final = b"\x00"
"""The attributes byte of a record; its bits have no meaning."""
_EMPTY_HEADER: Final = bytes(HEADER_SIZE)
_FIRST: Final = _NO_ATTRIBUTES + encode_varint(0) + encode_varint(0)
"""The start of the first record of a batch: both deltas are 0."""


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: int = 0,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = -1,
    attributes: int = 0,
) -> bytearray:
    """A new batch with its CRC set.

    The offsets of the records are relative to ``base_offset`` and must be 0, 1, 2, … ``attributes`` may have
    TRANSACTIONAL, CONTROL and LOG_APPEND_TIME, but not the codec.
    """
    listed = records if isinstance(records, list | tuple) else list(records)
    if not listed:
        raise ValueError("a batch needs at least one record")
    if attributes & CODEC_MASK:
        raise ValueError("pass the codec as codec=, not in the attributes")
    base_timestamp = listed[0].timestamp
    body = bytearray()
    max_timestamp = NO_TIMESTAMP
    for delta, record in enumerate(listed):
        if record.offset != delta:
            raise ValueError(
                f"record {delta} of a new batch has offset {record.offset}: offsets must be 0, 1, 2, …; "
                f"use rebuild_batch for absolute offsets or gaps"
            )
        if record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
        _append_record(body, record, record.timestamp - base_timestamp, delta)
    out = bytearray(HEADER_SIZE)
    out += compress(codec, body, level) if codec else body
    last = len(listed) - 1
    HEADER.pack_into(
        out,
        0,
        base_offset,
        len(out) - LENGTH_OVERHEAD,
        leader_epoch,
        MAGIC_V2,
        0,
        attributes | codec,
        last,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        last + 1,
    )
    set_crc(out)
    return out


def rebuild_batch(
    header: BatchHeader,
    records: Iterable[Record],
    *,
    codec: int | None = None,
    level: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """The batch of ``header`` with other records; their offsets are absolute and may have gaps.

    * Offsets, producer id, epoch, sequence, leader epoch and flags of the batch stay: compaction relies on
      it.
    * The codec stays unless ``codec`` is given.
    * Without records it is the header that Kafka leaves in a compacted log: count 0, no codec, base timestamp
      -1.
    * ``delete_horizon_ms`` sets bit 6 and the base timestamp (KIP-534); an existing delete horizon stays.
    """
    listed = records if isinstance(records, list | tuple) else list(records)
    if not listed:
        bare = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
        return assemble_batch(header._replace(attributes=bare, base_timestamp=NO_TIMESTAMP, count=0), ())
    used_codec = header.codec if codec is None else codec
    attributes = header.attributes & ~CODEC_MASK | used_codec
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon_ms
    elif attributes & DELETE_HORIZON:
        base_timestamp = header.base_timestamp
    else:
        base_timestamp = listed[0].timestamp
    body = bytearray()
    for record in listed:
        delta = record.offset - header.base_offset
        if not 0 <= delta <= header.last_offset_delta:
            raise ValueError(
                f"offset {record.offset} is outside the batch {header.base_offset}..{header.last_offset}; "
                f"a rewritten batch keeps absolute offsets"
            )
        _append_record(body, record, record.timestamp - base_timestamp, delta)
    if attributes & LOG_APPEND_TIME:
        max_timestamp = header.max_timestamp
    else:
        max_timestamp = max(record.timestamp for record in listed)
    kept = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, count=len(listed)
    )
    return assemble_batch(kept, [compress(used_codec, body, level) if used_codec else body])


def assemble_batch(header: BatchHeader, pieces: Iterable[ReadBuffer]) -> bytearray:
    """The batch of this header, with length and CRC set; ``pieces`` are its (compressed) records."""
    out = bytearray().join((_EMPTY_HEADER, *pieces))
    HEADER.pack_into(out, 0, *header._replace(length=len(out) - LENGTH_OVERHEAD, crc=0))
    set_crc(out)
    return out


def set_crc(batch: bytearray | memoryview) -> None:
    """Write the CRC-32C of all bytes from the attributes; ``batch`` is exactly one batch."""
    with memoryview(batch) as view, view[ATTRIBUTES_AT:] as covered:
        _CRC.pack_into(view, CRC_AT, crc32c(covered))


def _append_record(out: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    _, _, key, value, headers = record
    if timestamp_delta or offset_delta:
        start = _NO_ATTRIBUTES + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    else:
        start = _FIRST
    body = start + _with_length(key) + _with_length(value)
    if headers:
        parts = [body, encode_varint(len(headers))]
        for name, content in headers:
            parts.append(_with_length(name.encode(errors=HEADER_KEY_ERRORS)))
            parts.append(_with_length(content))
        body = b"".join(parts)
    else:
        body += _EMPTY
    out += encode_varint(len(body))
    out += body


def _with_length(content: bytes | None) -> bytes:
    return _NULL if content is None else encode_varint(len(content)) + content


def empty_batch(first_offset: int, last_offset: int, leader_epoch: int) -> bytearray:
    """A batch without records, as compaction leaves one when it removes all records of a batch."""
    header = BatchHeader(
        base_offset=first_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=0,
        last_offset_delta=last_offset - first_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        count=0,
    )
    return assemble_batch(header, ())
