"""Control records: records that brokers write for themselves, in batches with the control bit.

A key is an int16 version 0 and an int16 type. Transaction markers (types 0 and 1) end a transaction; their
value is an int16 version 0 and the coordinator epoch. The other types belong to the metadata log (KIP-595,
KIP-630, KIP-853); their values are messages of ``protocol``.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from typing import NamedTuple

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.records.batch import CONTROL, HEADER, LENGTH_OVERHEAD, MAGIC_V2, NO_SEQUENCE, TRANSACTIONAL
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.record import Record

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
END_RECORD = struct.Struct(">5shhBhiB")
"""The record of a marker: lengths and deltas, key, length of the value, value, number of headers."""
END_RECORD_START = b"\x20\x00\x00\x00\x08"
END_VALUE_LENGTH = 12
"""The varint of 6."""
_END_BATCH = struct.Struct(HEADER.format + END_RECORD.format[1:])


class ControlType(enum.IntEnum):
    """The types of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    VOTERS = 6


class ControlRecord(NamedTuple):
    """The type and encoded value of a control record."""

    type: ControlType
    value: bytes


def control_key(control_type: int) -> bytes:
    return _KEY.pack(0, control_type)


def read_control_type(key: ReadBuffer | None) -> int:
    """The type in the key of a control record; unknown types are returned as they are."""
    if key is None or len(key) < _KEY.size:
        raise ProtocolError("the key of a control record must have at least 4 bytes: version and type")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(f"the key of a control record has version {version}")
    return int(control_type)


def read_coordinator_epoch(value: ReadBuffer | None) -> int:
    """The coordinator epoch in the value of a transaction marker."""
    if value is None or len(value) < _MARKER.size:
        raise ProtocolError("a transaction marker must have at least 6 bytes: version and coordinator epoch")
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise ProtocolError(f"a transaction marker has version {version}")
    return int(coordinator_epoch)


def end_txn_batch(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A transaction marker of 78 bytes; under transaction.version 2 it has the bumped epoch (KIP-890)."""
    batch = bytearray(_END_BATCH.size)
    _END_BATCH.pack_into(
        batch,
        0,
        base_offset,
        _END_BATCH.size - LENGTH_OVERHEAD,
        leader_epoch,
        MAGIC_V2,
        0,
        TRANSACTIONAL | CONTROL,
        0,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
        END_RECORD_START,
        0,
        ControlType.COMMIT if commit else ControlType.ABORT,
        END_VALUE_LENGTH,
        0,
        coordinator_epoch,
        0,
    )
    set_crc(batch)
    return batch


def control_batch(
    records: Iterable[ControlRecord], *, timestamp: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytearray:
    """A batch of KRaft control records for the metadata log or a snapshot."""
    return build_batch(
        [
            Record(delta, timestamp, control_key(record.type), record.value)
            for delta, record in enumerate(records)
        ],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=CONTROL,
    )
