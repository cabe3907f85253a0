"""Between the records of a coordinator's machine and those in the log of its topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import TypeAlias, TypeVar

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol.coordinator_records import CoordinatorRecords, UnknownRecordTypeError
from ruslo.protocol.message import Message
from ruslo.records.reader import read_records

logger = logging.getLogger(__name__)

EncodedRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value."""
RECORD_OVERHEAD_BYTES = 32
"""More than a record's own lengths, deltas and attributes ever take."""

RecordT = TypeVar("RecordT")

_PREFIX = Struct(">h")
"""A key begins with its type, a value with its version."""
_KEY_VERSION = 0


def encode_record(record: tuple[Message, Message | None, int]) -> EncodedRecord:
    """``record``: key, value, the value's version."""
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


def decode_records(
    batch: ReadBuffer, types: CoordinatorRecords, make: Callable[[Message, Message | None, int], RecordT]
) -> Iterator[tuple[int, RecordT]]:
    """Offsets and records of a data batch. Types of a newer release are passed over, as Kafka does.

    Raises ProtocolError for anything else that cannot be read, such as a value of a newer version: leaving it
    out would make a different state of it.
    """
    for record in read_records(batch):
        if record.key is None:
            raise ProtocolError(f"the record at offset {record.offset} has no key")
        try:
            key = types.decode_key(record.key)
            if record.value is None:
                yield record.offset, make(key, None, 0)
            else:
                value, version = types.decode_value(key.API_KEY, record.value)
                yield record.offset, make(key, value, version)
        except UnknownRecordTypeError as error:
            logger.warning("the record at offset %d is passed over: %s", record.offset, error)
        except ProtocolError as error:
            raise ProtocolError(f"the record at offset {record.offset} cannot be read: {error}") from error
