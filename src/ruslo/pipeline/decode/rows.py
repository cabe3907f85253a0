"""Decodes batches to rows: the positions of every key and value, from which Arrow columns are gathered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ruslo.model.errors import ProtocolError
from ruslo.pipeline.decode.batch_table import BatchTable
from ruslo.pipeline.decode.walker import (
    SMALLEST_RECORD,
    Bytes,
    Int32s,
    Int64s,
    count_headers,
    locate_headers,
    walk,
)
from ruslo.records.batch import HEADER_SIZE
from ruslo.records.compression import MAX_DECOMPRESSED_BYTES, CompressedDataError, decompress
from ruslo.records.reader import read_records
from ruslo.records.record import HEADER_KEY_ERRORS, Header

_GROUP_BYTES: Final = 8 * 1024 * 1024
"""Decompressed batches are walked together once they reach this size."""
_MAX_OFFSET: Final = (1 << 63) - 1


class HeaderPositions(NamedTuple):
    """The positions of the headers of some rows: row ``i`` has headers list_ends[i] to list_ends[i + 1]."""

    list_ends: Int32s
    key_at: Int64s
    key_lengths: Int32s
    value_at: Int64s
    value_lengths: Int32s


@dataclass(frozen=True, slots=True)
class Rows:
    """Records by row. Positions are relative to ``data``; a length of -1 is null."""

    data: Bytes
    offsets: Int64s
    timestamps: Int64s
    append_time: npt.NDArray[np.bool_]
    """Whether the timestamp is LogAppendTime."""
    key_at: Int64s
    key_lengths: Int32s
    value_at: Int64s
    value_lengths: Int32s
    header_at: Int64s
    delivery_counts: Int32s | None = None
    """How often a share group has delivered the records; None in other queries."""

    def __len__(self) -> int:
        return len(self.offsets)

    def key(self, row: int) -> bytes | None:
        return self._bytes(int(self.key_at[row]), int(self.key_lengths[row]))

    def value(self, row: int) -> bytes | None:
        return self._bytes(int(self.value_at[row]), int(self.value_lengths[row]))

    def headers(self, row: int) -> tuple[Header, ...]:
        positions = self.header_positions(row, row + 1)
        return tuple(
            (name.decode(errors=HEADER_KEY_ERRORS), self._bytes(int(value_at), int(value_length)))
            for name_at, name_length, value_at, value_length in zip(*positions[1:], strict=True)
            if (name := self._bytes(int(name_at), int(name_length))) is not None
        )

    def header_positions(self, first: int, last: int) -> HeaderPositions:
        ends = np.empty(last - first + 1, np.int32)
        limit = len(self.data)
        total = count_headers(self.data, self.header_at, first, last, limit, ends)
        key_at, key_lengths = np.empty(total, np.int64), np.empty(total, np.int32)
        value_at, value_lengths = np.empty(total, np.int64), np.empty(total, np.int32)
        locate_headers(
            self.data, self.header_at, first, last, limit, key_at, key_lengths, value_at, value_lengths
        )
        return HeaderPositions(ends, key_at, key_lengths, value_at, value_lengths)

    def _bytes(self, at: int, length: int) -> bytes | None:
        return None if length < 0 else self.data[at : at + length].tobytes()


def decode_rows(table: BatchTable, first_offset: int = 0, end_offset: int = _MAX_OFFSET) -> Iterator[Rows]:
    """The records of the table with first_offset ≤ offset < end_offset.

    Checks CRCs first. Raises ProtocolError, which names the batch, for malformed records.
    """
    table.check_crcs()
    if not len(table):
        return
    if not table.codecs.any():
        starts = table.at + HEADER_SIZE
        data = np.frombuffer(table.data, dtype=np.uint8)
        yield _walk(table, data, starts, table.at + table.sizes, first_offset, end_offset)
        return
    begin = 0
    pieces: list[bytes | memoryview] = []
    size = 0
    for number in range(len(table)):
        piece = _payload(table, number)
        pieces.append(piece)
        size += len(piece)
        if size >= _GROUP_BYTES or number + 1 == len(table):
            group = table.take(slice(begin, number + 1))
            yield _walk_joined(group, pieces, first_offset, end_offset)
            begin, pieces, size = number + 1, [], 0


def _payload(table: BatchTable, number: int) -> bytes | memoryview:
    codec = int(table.attributes[number]) & 7
    payload = table.batch(number)[HEADER_SIZE:]
    if not codec or (not payload and not table.counts[number]):
        return payload
    try:
        return decompress(codec, payload, MAX_DECOMPRESSED_BYTES)
    except CompressedDataError as error:
        raise ProtocolError(
            f"the batch at offset {int(table.base_offsets[number])} cannot be decompressed: {error}"
        ) from error


def _walk_joined(
    group: BatchTable, pieces: list[bytes | memoryview], first_offset: int, end_offset: int
) -> Rows:
    ends = np.cumsum(np.array([len(piece) for piece in pieces], dtype=np.int64))
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
    data = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return _walk(group, data, starts, ends, first_offset, end_offset)


def _walk(
    table: BatchTable, data: Bytes, starts: Int64s, ends: Int64s, first_offset: int, end_offset: int
) -> Rows:
    counts = table.counts
    impossible = np.flatnonzero((counts < 0) | (counts * SMALLEST_RECORD > ends - starts))
    if len(impossible):
        raise _malformed(table, int(impossible[0]))
    room = int(counts.sum())
    append_time = table.has_append_time
    offsets, timestamps = np.empty(room, np.int64), np.empty(room, np.int64)
    key_at, key_lengths = np.empty(room, np.int64), np.empty(room, np.int32)
    value_at, value_lengths = np.empty(room, np.int64), np.empty(room, np.int32)
    header_at = np.empty(room, np.int64)
    data.flags.writeable = False
    rows, failed = walk(
        data,
        starts,
        ends,
        counts,
        table.base_offsets,
        table.base_timestamps,
        append_time.astype(np.int64),
        table.max_timestamps,
        first_offset,
        end_offset,
        offsets,
        timestamps,
        key_at,
        key_lengths,
        value_at,
        value_lengths,
        header_at,
    )
    if failed >= 0:
        raise _malformed(table, failed)
    if append_time.all() or not append_time.any():
        by_row = np.full(rows, bool(append_time[0]))
    else:
        # Only few tables mix both timestamp types; each row gets the type of the batch of its offset.
        batch_of_row = np.searchsorted(table.base_offsets, offsets[:rows], side="right") - 1
        by_row = append_time[batch_of_row]
    return Rows(
        data,
        offsets[:rows],
        timestamps[:rows],
        by_row,
        key_at[:rows],
        key_lengths[:rows],
        value_at[:rows],
        value_lengths[:rows],
        header_at[:rows],
    )


def _malformed(table: BatchTable, number: int) -> ProtocolError:
    """The error of the slow reader, which says what is wrong with a batch."""
    batch = table.batch(number)
    try:
        for _ in read_records(batch):
            pass
    except ProtocolError as error:
        return error
    return ProtocolError(f"the batch at offset {int(table.base_offsets[number])} is malformed")
