"""``<offset>.snapshot``: the producer state at an offset, with the last batch of each producer."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from crc32c import crc32c

from ruslo.model.errors import CorruptLogError
from ruslo.storage.producer_entry import SEQUENCE_MASK, BatchMetadata, ProducerEntry

SNAPSHOT_SUFFIX = ".snapshot"
EMPTY_SIZE = 10
"""Size of a snapshot without producers."""

_HEADER = struct.Struct(">hIi")
_CRC = struct.Struct(">I")
_CRC_AT = 2
_CRC_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


def snapshot_path(log_path: str, offset: int) -> str:
    return f"{log_path}/{offset:020d}{SNAPSHOT_SUFFIX}"


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    rows = [
        _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.batches[-1].last_offset if entry.batches else -1,
            entry.batches[-1].offset_delta if entry.batches else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_start,
        )
        for entry in entries
    ]
    data = bytearray(b"".join((_HEADER.pack(_VERSION, 0, len(rows)), *rows)))
    _CRC.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_CRC_FROM:]))
    return bytes(data)


def decode_snapshot(data: bytes, path: str) -> list[ProducerEntry]:
    if len(data) < _HEADER.size:
        raise CorruptLogError(f"{path} has {len(data)} bytes, too few for a producer snapshot")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptLogError(f"{path} has version {version}, only {_VERSION} is supported")
    if crc != crc32c(memoryview(data)[_CRC_FROM:]):
        raise CorruptLogError(f"{path} fails its checksum")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptLogError(f"{path} says that it has {count} producers, but has {len(data)} bytes")
    entries = []
    for row in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, start = row
        entry = ProducerEntry(producer_id, epoch)
        if last_offset >= 0:
            entry.add_batch(BatchMetadata(last_sequence & SEQUENCE_MASK, last_offset, delta, timestamp))
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_start = start
        entries.append(entry)
    return entries
