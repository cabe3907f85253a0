"""The bytes of the records of ``__transaction_state``, written without the messages of ``protocol``.

Every small transaction writes three records, and encoding them took most of the coordinator's time. Tests
compare the bytes with those of TransactionLogKey and TransactionLogValue; ``records`` explains the fields.
"""

from __future__ import annotations

from struct import Struct, pack
from typing import TypeAlias

from ruslo.machines.txns.metadata import NO_PRODUCER_ID, TxnMetadata
from ruslo.machines.txns.records import TAGGED_VERSION, TxnRecord, by_topic
from ruslo.machines.txns.states import TV0, TxnState
from ruslo.protocol.primitives import write_uvarint

RecordBytes: TypeAlias = tuple[bytes, bytes | None]
"""The key and the value; None is a tombstone."""

_KEY = Struct(">hh")  # record type, length of the id
_KEY_TYPE = 0
_HEAD = Struct(">hqhib")  # version, producer id, epoch, timeout, status
_TIMES = Struct(">qq")  # last update, start
_PLAIN_NULL = b"\xff\xff\xff\xff"
_PLAIN_LENGTH = Struct(">i")
_PLAIN_STRING = Struct(">h")
_ID_TAG = Struct(">BBq")  # tag, its size, a producer id
_VERSION_TAG = Struct(">BBh")


def record_bytes(record: TxnRecord) -> RecordBytes:
    if record.metadata is None:
        return tombstone_bytes(record.transactional_id)
    return state_bytes(record.transactional_id, record.metadata, record.version)


def tombstone_bytes(transactional_id: str) -> RecordBytes:
    return _key(transactional_id), None


def state_bytes(transactional_id: str, metadata: TxnMetadata, version: int) -> RecordBytes:
    """``version``: the version of the value."""
    out = bytearray(
        _HEAD.pack(version, metadata.producer_id, metadata.epoch, metadata.timeout_ms, metadata.state)
    )
    if version >= TAGGED_VERSION:
        _write_partitions(out, metadata)
    else:
        _write_plain_partitions(out, metadata)
    out += _TIMES.pack(metadata.last_update_ms, metadata.start_ms)
    if version >= TAGGED_VERSION:
        _write_tags(out, metadata)
    return _key(transactional_id), bytes(out)


def _key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _KEY.pack(_KEY_TYPE, len(name)) + name


def _write_partitions(out: bytearray, metadata: TxnMetadata) -> None:
    if metadata.state is TxnState.EMPTY:
        out.append(0)
        return
    topics = by_topic(metadata.partitions)
    write_uvarint(out, len(topics) + 1)
    for topic, indexes in topics:
        name = topic.encode()
        write_uvarint(out, len(name) + 1)
        out += name
        write_uvarint(out, len(indexes) + 1)
        out += pack(f">{len(indexes)}i", *indexes)
        out.append(0)


def _write_plain_partitions(out: bytearray, metadata: TxnMetadata) -> None:
    if metadata.state is TxnState.EMPTY:
        out += _PLAIN_NULL
        return
    topics = by_topic(metadata.partitions)
    out += _PLAIN_LENGTH.pack(len(topics))
    for topic, indexes in topics:
        name = topic.encode()
        out += _PLAIN_STRING.pack(len(name))
        out += name
        out += pack(f">{len(indexes) + 1}i", len(indexes), *indexes)


def _write_tags(out: bytearray, metadata: TxnMetadata) -> None:
    count_at = len(out)
    out.append(0)
    if metadata.previous_producer_id != NO_PRODUCER_ID:
        out[count_at] += 1
        out += _ID_TAG.pack(0, 8, metadata.previous_producer_id)
    if metadata.next_producer_id != NO_PRODUCER_ID:
        out[count_at] += 1
        out += _ID_TAG.pack(1, 8, metadata.next_producer_id)
    if metadata.client_version != TV0:
        out[count_at] += 1
        out += _VERSION_TAG.pack(2, 2, metadata.client_version)
