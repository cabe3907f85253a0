"""Between the machine's records and batches in the log of ``__consumer_offsets``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import TypeAlias

from ruslo.machines.groups.decision import Producer
from ruslo.machines.groups.records import GroupRecord
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol.coordinator_records import GROUP_RECORDS, UnknownRecordTypeError
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.reader import read_records
from ruslo.records.record import Record

logger = logging.getLogger(__name__)

EncodedRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value."""
RECORD_OVERHEAD_BYTES = 32
"""More than a record's own lengths, deltas and attributes ever take."""

_PREFIX = Struct(">h")
"""A key begins with its type, a value with its version."""
_KEY_VERSION = 0
_BASE_SEQUENCE = 0
"""As Kafka's coordinator writes it, although no producer id goes with it."""


def encode_record(record: GroupRecord) -> EncodedRecord:
    key, value, version = record
    encoded_key = bytearray(_PREFIX.pack(key.API_KEY))
    key.write(encoded_key, _KEY_VERSION)
    if value is None:
        return bytes(encoded_key), None
    encoded_value = bytearray(_PREFIX.pack(version))
    value.write(encoded_value, version)
    return bytes(encoded_key), bytes(encoded_value)


def size_of(records: Iterable[EncodedRecord]) -> int:
    """At most so many bytes of an uncompressed batch."""
    return sum(
        len(key) + (0 if value is None else len(value)) + RECORD_OVERHEAD_BYTES for key, value in records
    )


def encode_batch(
    records: Iterable[EncodedRecord], now_ms: int, codec: int, producer: Producer | None
) -> bytearray:
    """Without the offset, which the log gives it."""
    listed = [Record(at, now_ms, key, value) for at, (key, value) in enumerate(records)]
    if producer is None:
        return build_batch(listed, codec=codec, base_sequence=_BASE_SEQUENCE)
    return build_batch(
        listed,
        codec=codec,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=_BASE_SEQUENCE,
        attributes=TRANSACTIONAL,
    )


def decode_records(batch: ReadBuffer) -> Iterator[tuple[int, GroupRecord]]:
    """Offsets and records of a data batch. Types of a newer release are passed over, as Kafka does.

    Raises ProtocolError for anything else that cannot be read, such as a value of a newer version: leaving it
    out would make a different group of it.
    """
    for record in read_records(batch):
        if record.key is None:
            raise ProtocolError(f"the record at offset {record.offset} has no key")
        try:
            key = GROUP_RECORDS.decode_key(record.key)
            if record.value is None:
                yield record.offset, GroupRecord(key, None)
            else:
                value, version = GROUP_RECORDS.decode_value(key.API_KEY, record.value)
                yield record.offset, GroupRecord(key, value, version)
        except UnknownRecordTypeError as error:
            logger.warning("the record at offset %d is passed over: %s", record.offset, error)
        except ProtocolError as error:
            raise ProtocolError(f"the record at offset {record.offset} cannot be read: {error}") from error
