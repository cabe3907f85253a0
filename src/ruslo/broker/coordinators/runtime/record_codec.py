"""Encodes and decodes the records of coordinators: a typed key, and a versioned value or a tombstone."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import TypeAlias

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol.coordinator_records import CoordinatorRecords, UnknownRecordTypeError
from ruslo.protocol.message import Message
from ruslo.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.reader import read_records
from ruslo.records.record import Record

logger = logging.getLogger(__name__)

EncodedRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value."""
RECORD_OVERHEAD_BYTES = 32
"""An upper bound of the lengths, deltas and attributes of a record."""

_PREFIX = Struct(">h")
"""A key begins with its type, a value with its version."""
_KEY_VERSION = 0
_NO_PRODUCER = (NO_PRODUCER_ID, -1)


def encode_record(key: Message, value: Message | None, version: int) -> EncodedRecord:
    """``version``: the version of the value."""
    encoded_key = bytearray(_PREFIX.pack(key.API_KEY))
    key.write(encoded_key, _KEY_VERSION)
    if value is None:
        return bytes(encoded_key), None
    encoded_value = bytearray(_PREFIX.pack(version))
    value.write(encoded_value, version)
    return bytes(encoded_key), bytes(encoded_value)


def encode_batch(
    records: Iterable[EncodedRecord],
    now_ms: int,
    *,
    compression: int = 0,
    base_sequence: int = NO_SEQUENCE,
    producer: tuple[int, int] | None = None,
) -> bytearray:
    """A batch whose offsets the log assigns; transactional if it has a producer (its id and epoch)."""
    producer_id, producer_epoch = producer or _NO_PRODUCER
    return build_batch(
        [Record(at, now_ms, key, value) for at, (key, value) in enumerate(records)],
        codec=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        attributes=0 if producer is None else TRANSACTIONAL,
    )


def size_of(records: Iterable[EncodedRecord]) -> int:
    """An upper bound of the records' size in an uncompressed batch."""
    return sum(
        len(key) + (0 if value is None else len(value)) + RECORD_OVERHEAD_BYTES for key, value in records
    )


def decode_records(
    batch: ReadBuffer, types: CoordinatorRecords
) -> Iterator[tuple[int, Message, Message | None, int]]:
    """The offset, key, value and value version of each record in a data batch.

    Record types of a newer release are skipped, as in Kafka. Raises ProtocolError for any other record that
    cannot be read, such as a value of a newer version: without it the state would be another one.
    """
    for record in read_records(batch):
        if record.key is None:
            raise ProtocolError(f"the record at offset {record.offset} has no key")
        try:
            key = types.decode_key(record.key)
            if record.value is None:
                yield record.offset, key, None, 0
            else:
                yield record.offset, key, *types.decode_value(key.API_KEY, record.value)
        except UnknownRecordTypeError as error:
            logger.warning("Skipped the record at offset %d: %s", record.offset, error)
        except ProtocolError as error:
            raise ProtocolError(f"the record at offset {record.offset} cannot be read: {error}") from error
