"""The content of a file in a log directory, as rows of plain values: ``ruslo log dump``.

The file name tells the kind of a file, whatever suffix follows (``.deleted``, ``.cleaned``, ``.swap``). Files
of a running broker can be dumped too: nothing is written, and bytes after the last whole batch become a
``rest`` row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeAlias

from crc32c import crc32c

from ruslo.model.errors import ProtocolError, StorageError
from ruslo.model.ids import uuid_to_text
from ruslo.records.batch import ATTRIBUTES_AT, DELETE_HORIZON, BatchHeader
from ruslo.records.compression import Codec
from ruslo.records.control import ControlType, read_control_type
from ruslo.records.reader import read_records
from ruslo.storage import txn_index
from ruslo.storage.batch_scan import SCAN_BYTES, scan_headers
from ruslo.storage.checkpoints import LEADER_EPOCHS, parse_epochs, parse_offsets
from ruslo.storage.disk import Disk
from ruslo.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ruslo.storage.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.partition_files import PARTITION_METADATA, offset_of, parse_partition_metadata
from ruslo.storage.producer_entry import SEQUENCE_MASK
from ruslo.storage.producer_snapshot import SNAPSHOT_SUFFIX, decode_snapshot
from ruslo.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)

Row: TypeAlias = dict[str, object]
"""``row["row"]`` is its kind: batch, record, index, timeindex, txnindex, producer, offset, epoch, …"""

METADATA_SNAPSHOT_SUFFIX = ".checkpoint"
OFFSET_CHECKPOINT_SUFFIX = "-offset-checkpoint"


def dump_file(path: str, *, records: bool = False) -> Iterator[Row]:
    """The rows of one file; with ``records`` every batch row is followed by rows for its records."""
    disk = LocalDisk(os.path.dirname(path) or ".")
    name = os.path.basename(path)
    for suffix in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
        name = name.removesuffix(suffix)
    if name.endswith((LOG_SUFFIX, METADATA_SNAPSHOT_SUFFIX)):
        return _batches(disk, path, records)
    base_offset = offset_of(name) or 0
    if name.endswith(INDEX_SUFFIX):
        return _offset_index(disk.read_file(path), base_offset)
    if name.endswith(TIME_INDEX_SUFFIX):
        return _time_index(disk.read_file(path), base_offset)
    if name.endswith(TXN_INDEX_SUFFIX):
        return _txn_index(disk.read_file(path), path)
    if name.endswith(SNAPSHOT_SUFFIX):
        return _producers(disk.read_file(path), path)
    if name.endswith(OFFSET_CHECKPOINT_SUFFIX):
        return _offsets(disk.read_file(path), path)
    if name == LEADER_EPOCHS:
        return _epochs(disk.read_file(path), path)
    if name == PARTITION_METADATA:
        topic_id = parse_partition_metadata(disk.read_file(path), path)
        return iter([{"row": "partition", "topic_id": uuid_to_text(topic_id)}])
    raise StorageError(
        f"{path} cannot be dumped: its name tells no known kind. Name a .log, .index, .timeindex, .txnindex, "
        f".snapshot, .checkpoint, *{OFFSET_CHECKPOINT_SUFFIX}, {LEADER_EPOCHS} or {PARTITION_METADATA} file"
    )


def _batches(disk: Disk, path: str, with_records: bool) -> Iterator[Row]:
    file = disk.open(path)
    size = file.size()
    position = 0
    for position, fields in scan_headers(file, 0, size, SCAN_BYTES):
        header = BatchHeader._make(fields)
        batch = file.pread(header.size, position)
        yield _batch_row(position, header, crc32c(memoryview(batch)[ATTRIBUTES_AT:]) == header.crc)
        if with_records:
            yield from _record_rows(batch, header)
        position += header.size
    if position < size:
        yield {"row": "rest", "position": position, "size": size - position}


def _batch_row(position: int, header: BatchHeader, valid: bool) -> Row:
    has_sequence = header.base_sequence >= 0
    return {
        "row": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "base_sequence": header.base_sequence,
        "last_sequence": (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK
        if has_sequence
        else -1,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "leader_epoch": header.leader_epoch,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon_ms": header.base_timestamp if header.attributes & DELETE_HORIZON else None,
        "position": position,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "size": header.size,
        "magic": header.magic,
        "codec": Codec(header.codec).name.lower() if header.codec in set(Codec) else str(header.codec),
        "crc": header.crc,
        "valid": valid,
    }


def _record_rows(batch: bytes, header: BatchHeader) -> Iterator[Row]:
    try:
        for record in read_records(batch):
            row: Row = {
                "row": "record",
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": record.key,
                "value": record.value,
                "headers": record.headers,
            }
            if header.is_control:
                kind = read_control_type(record.key)
                row["control"] = ControlType(kind).name if kind in set(ControlType) else str(kind)
            yield row
    except ProtocolError as error:
        yield {"row": "unreadable", "base_offset": header.base_offset, "problem": str(error)}


def _offset_index(data: bytes, base_offset: int) -> Iterator[Row]:
    whole = len(data) - len(data) % OFFSET_ENTRY.size
    for offset, position in OFFSET_ENTRY.iter_unpack(data[:whole]):
        yield {"row": "index", "offset": base_offset + offset, "position": position}


def _time_index(data: bytes, base_offset: int) -> Iterator[Row]:
    whole = len(data) - len(data) % TIME_ENTRY.size
    for timestamp, offset in TIME_ENTRY.iter_unpack(data[:whole]):
        yield {"row": "timeindex", "timestamp": timestamp, "offset": base_offset + offset}


def _txn_index(data: bytes, path: str) -> Iterator[Row]:
    for aborted in txn_index.parse(data, path):
        yield {"row": "txnindex", **aborted._asdict()}


def _producers(data: bytes, path: str) -> Iterator[Row]:
    for entry in decode_snapshot(data, path):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "row": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": last.last_offset if last else -1,
            "offset_delta": last.offset_delta if last else 0,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_start": entry.transaction_start,
        }


def _offsets(data: bytes, path: str) -> Iterator[Row]:
    for (topic, partition), offset in parse_offsets(data, path).items():
        yield {"row": "offset", "topic": topic, "partition": partition, "offset": offset}


def _epochs(data: bytes, path: str) -> Iterator[Row]:
    for epoch, start in parse_epochs(data, path):
        yield {"row": "epoch", "epoch": epoch, "start_offset": start}
