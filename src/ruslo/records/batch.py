"""The header of a record batch, magic 2: the one layout that the wire and the disk share.

Everything before ``ATTRIBUTES_AT`` lies outside the CRC, so a leader may set base offset and leader epoch in
place without touching the checksum.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ruslo.model.buffers import ReadBuffer

HEADER_SIZE = 61
LENGTH_OVERHEAD = 12
"""Base offset and length itself: a batch is ``length + 12`` bytes long."""
MAGIC = 2

HEADER = struct.Struct(">qiibIhiqqqhii")
BASE_OFFSET = struct.Struct(">q")
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
    """The 13 header fields in wire order; built by ``BatchHeader._make(HEADER.unpack_from(buf, pos))``."""

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
    count: int  # type: ignore[assignment]  # the wire has the name; nobody counts header fields

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
    """Unpack a header; the caller has made sure that 61 bytes are there."""
    return BatchHeader._make(HEADER.unpack_from(buf, pos))
