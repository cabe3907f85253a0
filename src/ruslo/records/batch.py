"""The header of a record batch, magic 2: the one layout that the wire and the disk share.

Everything before ``ATTRIBUTES_AT`` lies outside the CRC, so a leader may set base offset and leader epoch in
place without touching the checksum. A header has two forms:

* ``HeaderFields``: the plain tuple that ``HEADER`` unpacks, read as ``header[PRODUCER_ID]``. Code that
  handles every batch uses it, because building a ``BatchHeader`` costs more than unpacking the fields.
* ``BatchHeader``: the same fields as a named tuple, with the values that derive from them.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from ruslo.model.buffers import ReadBuffer

HEADER_SIZE = 61
LENGTH_OVERHEAD = 12
"""Base offset and length itself: a batch is ``length + 12`` bytes long."""
MAGIC_V2 = 2

HEADER = struct.Struct(">qiibIhiqqqhii")
BASE_OFFSET_STRUCT = struct.Struct(">q")

HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The 13 header fields in wire order, as ``HEADER`` unpacks them."""

# The indexes of HeaderFields.
BASE_OFFSET: Final = 0
LENGTH: Final = 1
LEADER_EPOCH: Final = 2
MAGIC: Final = 3
CRC: Final = 4
ATTRIBUTES: Final = 5
LAST_OFFSET_DELTA: Final = 6
BASE_TIMESTAMP: Final = 7
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9
PRODUCER_EPOCH: Final = 10
BASE_SEQUENCE: Final = 11
RECORD_COUNT: Final = 12

# Positions of fields, in bytes from the start of the batch.
LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
COUNT_AT = 57

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1


class BatchHeader(NamedTuple):
    """The 13 header fields in wire order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's name hides tuple.count

    @property
    def size(self) -> int:
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


def read_header(buf: ReadBuffer, pos: int = 0) -> BatchHeader:
    """Unpack a header; the buffer must hold 61 bytes from ``pos``."""
    return BatchHeader._make(HEADER.unpack_from(buf, pos))


def size_of(header: HeaderFields) -> int:
    """The size of the whole batch in bytes."""
    return header[LENGTH] + LENGTH_OVERHEAD


def last_offset_of(header: HeaderFields) -> int:
    return header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
