"""Encodes and decodes the batches of the metadata log and of its snapshots.

Data batches hold metadata records (null key). Control batches hold the quorum's own records, and the header
and footer of a snapshot. Batches are uncompressed and have no producer; the leader epoch is the raft epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import CorruptLogError, ProtocolError, StorageError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.leader_change_message import LeaderChangeMessage
from ruslo.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from ruslo.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from ruslo.protocol.messages.voters_record import VotersRecord
from ruslo.protocol.metadata_records import decode_metadata_record, encode_metadata_record
from ruslo.records import control
from ruslo.records.builder import build_batch
from ruslo.records.control import ControlType
from ruslo.records.reader import read_records
from ruslo.records.record import Record

ControlRecord: TypeAlias = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)
VersionedRecord: TypeAlias = tuple[Message, int]
"""A metadata record and its version, which follows from the finalized metadata.version."""

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
"""Kafka's limit for a batch of metadata records, which its followers enforce."""

_CONTROL_TYPES: Final[dict[int, type[ControlRecord]]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.VOTERS: VotersRecord,
}
_TYPE_OF_CONTROL: Final = {message: ControlType(number) for number, message in _CONTROL_TYPES.items()}
_VALUE_VERSION = struct.Struct(">h")


def data_batch(
    records: Sequence[VersionedRecord],
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    values: Sequence[bytes] | None = None,
) -> bytearray:
    """``values``: the records as encoded by ``encode_metadata_record``, if the caller has done it."""
    if values is None:
        values = [encode_metadata_record(record, version) for record, version in records]
    return build_batch(
        [Record(delta, timestamp_ms, None, value) for delta, value in enumerate(values)],
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def control_batch(
    records: Sequence[ControlRecord], *, base_offset: int, epoch: int, timestamp_ms: int
) -> bytearray:
    return control.control_batch(
        (
            control.ControlRecord(_TYPE_OF_CONTROL[type(record)], record.to_bytes(record.version))
            for record in records
        ),
        timestamp=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def read_data(batch: ReadBuffer) -> Iterator[Message]:
    """The metadata records of a data batch, decoded lazily. An unknown type or version raises: skipping it
    would let the metadata of this node differ from the cluster's."""
    for record in _records(batch):
        if record.value is None:
            raise CorruptLogError(f"The metadata record at offset {record.offset} has no value")
        try:
            message, _ = decode_metadata_record(record.value)
        except ProtocolError as error:
            raise StorageError(
                f"The metadata record at offset {record.offset} cannot be decoded: {error}. It was written "
                "by "
                "a newer release or is damaged. Start a release of Ruslo that supports the cluster's "
                "metadata.version, or restore the metadata directory from a backup"
            ) from error
        yield message


def read_control(batch: ReadBuffer) -> list[tuple[int, ControlRecord]]:
    """The records of a control batch with their offsets."""
    found: list[tuple[int, ControlRecord]] = []
    for record in _records(batch):
        try:
            kind = control.read_control_type(record.key)
            (version,) = _VALUE_VERSION.unpack_from(record.value or b"")
            message = _CONTROL_TYPES[kind].from_bytes(record.value or b"", version)
        except (struct.error, KeyError, ProtocolError) as error:
            raise StorageError(
                f"The control record at offset {record.offset} of the metadata log cannot be decoded "
                f"({error!r}). It was written by a newer release or is damaged. Start a newer release of "
                "Ruslo, or restore the metadata directory from a backup"
            ) from error
        found.append((record.offset, message))
    return found


def _records(batch: ReadBuffer) -> Iterator[Record]:
    try:
        yield from read_records(batch)
    except ProtocolError as error:
        raise CorruptLogError(f"A metadata batch cannot be decoded: {error}") from error
