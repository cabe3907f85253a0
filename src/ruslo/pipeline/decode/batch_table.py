"""The batches of a buffer as a table with one array per header field; checks sizes and CRCs."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAGIC_V2,
    TRANSACTIONAL,
)

_FRAME: Final = struct.Struct(">qi4xb4x2xi")
"""Base offset, length, magic and last offset delta: enough to step from batch to batch."""
_MAX_OFFSET: Final = (1 << 63) - 1
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
assert _HEADER.itemsize == HEADER_SIZE

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchTable:
    """The complete batches of ``data``, in order; ``take`` selects some of them."""

    data: memoryview
    at: Int64s
    sizes: Int64s
    base_offsets: Int64s
    last_offsets: Int64s
    attributes: Int64s
    base_timestamps: Int64s
    max_timestamps: Int64s
    producer_ids: Int64s
    counts: Int64s
    crcs: Int64s

    def __len__(self) -> int:
        return len(self.at)

    @property
    def bytes_used(self) -> int:
        """The end of the last complete batch."""
        return int(self.at[-1] + self.sizes[-1]) if len(self.at) else 0

    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch; None without batches."""
        return int(self.last_offsets[-1]) + 1 if len(self.at) else None

    @property
    def codecs(self) -> Int64s:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> npt.NDArray[np.bool_]:
        return self._has(CONTROL)

    @property
    def is_transactional(self) -> npt.NDArray[np.bool_]:
        return self._has(TRANSACTIONAL)

    @property
    def has_append_time(self) -> npt.NDArray[np.bool_]:
        return self._has(LOG_APPEND_TIME)

    def _has(self, flag: int) -> npt.NDArray[np.bool_]:
        return (self.attributes & flag).astype(np.bool_)

    def batch(self, number: int) -> memoryview:
        at = int(self.at[number])
        return self.data[at : at + int(self.sizes[number])]

    def take(self, kept: npt.NDArray[np.bool_] | slice) -> BatchTable:
        columns = (getattr(self, each.name)[kept] for each in fields(self)[1:])
        return BatchTable(self.data, *columns)

    def check_crcs(self) -> None:
        """Raise ProtocolError for the first batch that was damaged in transit or on disk."""
        data = self.data
        rows = zip(self.at.tolist(), self.sizes.tolist(), self.crcs.tolist(), strict=True)
        for number, (at, size, crc) in enumerate(rows):
            if crc32c(data[at + ATTRIBUTES_AT : at + size]) != crc:
                raise ProtocolError(
                    f"the batch at offset {int(self.base_offsets[number])} does not match its CRC: it was "
                    f"damaged in transit or on the broker's disk"
                )


def scan_batches(buffer: ReadBuffer, end_offset: int = _MAX_OFFSET) -> BatchTable:
    """The complete batches at the start of ``buffer``, up to the batch that contains ``end_offset`` - 1.

    A truncated last batch is ignored. Raises ProtocolError for bytes that are not a batch; ``check_crcs``
    checks the CRCs.
    """
    data = memoryview(buffer).cast("B")
    end = len(data)
    pos = 0
    found: list[int] = []
    unpack = _FRAME.unpack_from
    while end - pos >= HEADER_SIZE:
        base_offset, length, magic, last_delta = unpack(data, pos)
        if magic != MAGIC_V2:
            raise _other_magic(magic, pos)
        size = length + LENGTH_OVERHEAD
        if size < HEADER_SIZE:
            raise ProtocolError(
                f"the batch at byte {pos} has a size of {size} bytes, less than its header ({HEADER_SIZE})"
            )
        if end - pos < size:
            break
        found.append(pos)
        pos += size
        if base_offset + last_delta + 1 >= end_offset:
            break
    else:
        # Messages of older formats may be shorter than a batch header.
        if end - pos > MAGIC_AT and data[pos + MAGIC_AT] != MAGIC_V2:
            raise _other_magic(data[pos + MAGIC_AT], pos)
    at = np.array(found, dtype=np.int64)
    octets = np.frombuffer(data, dtype=np.uint8)
    headers = octets[at[:, None] + np.arange(HEADER_SIZE)].view(_HEADER).reshape(len(found))

    def column(name: str) -> Int64s:
        return np.array(headers[name], dtype=np.int64)

    base_offsets = column("base_offset")
    table = BatchTable(
        data,
        at,
        column("length") + LENGTH_OVERHEAD,
        base_offsets,
        base_offsets + column("last_offset_delta"),
        column("attributes"),
        column("base_timestamp"),
        column("max_timestamp"),
        column("producer_id"),
        column("count"),
        column("crc"),
    )
    if found and (base_offsets.min() < 0 or (table.last_offsets < base_offsets).any()):
        raise ProtocolError("a batch has a negative base offset, or ends before it begins")
    return table


def _other_magic(magic: int, pos: int) -> ProtocolError:
    if 0 <= magic < MAGIC_V2:
        return ProtocolError(
            f"the batch at byte {pos} has message format {magic}, from Kafka before 0.11, which is not "
            f"supported: copy the topic with a client that writes message format {MAGIC_V2}"
        )
    return ProtocolError(f"the batch at byte {pos} has unknown magic {magic}; only {MAGIC_V2} is supported")
