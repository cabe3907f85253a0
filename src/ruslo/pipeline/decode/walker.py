"""The compiled walk over the records of many batches: locates each key, value and header list.

Compiled code has no bounds checks, so every position is compared with the end of its record, and that with
the end of its batch, before it is used. The rules are those of ``ruslo.records.reader``: tests compare the
two, and its errors are reported when a walk fails.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from numba import types

from ruslo.pipeline.decode.compiled import BYTES, INT32S, INT64, INT64S, PAIR, compiled

SMALLEST_RECORD: Final = 7
"""Length, attributes, two deltas, two lengths and the header count, one byte each."""

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

_MALFORMED: Final = -1
_INT64_MAX: Final = (1 << 63) - 1
_INT64_MIN: Final = -(1 << 63)


@compiled(PAIR(BYTES, INT64, INT64, INT64))
def _varint(data: Bytes, pos: int, stop: int, bits: int) -> tuple[int, int]:
    """A zigzag varint of at most ``bits`` bits and the position after it, which is -1 if it is malformed."""
    value = np.uint64(0)
    shift = 0
    while shift < bits:
        if pos >= stop:
            return 0, _MALFORMED
        byte = data[pos]
        pos += 1
        low = np.uint64(byte & 0x7F)
        if shift + 7 > bits and (low >> np.uint64(bits - shift)) != np.uint64(0):
            return 0, _MALFORMED
        value |= low << np.uint64(shift)
        if byte < 0x80:
            number = np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))
            return number, pos  # type: ignore[return-value]  # the compiler's integers are numpy's
        shift += 7
    return 0, _MALFORMED


@compiled(INT64(BYTES, INT64, INT64))
def _skip_headers(data: Bytes, pos: int, stop: int) -> int:
    """The position after a record's headers; -1 if they are malformed."""
    count, pos = _varint(data, pos, stop, 32)
    if pos < 0 or count < 0 or count > (stop - pos) // 2:
        return _MALFORMED
    for _ in range(count):
        length, pos = _varint(data, pos, stop, 32)
        if pos < 0 or length < 0 or length > stop - pos:
            return _MALFORMED
        length, pos = _varint(data, pos + length, stop, 32)
        if pos < 0 or length > stop - pos:
            return _MALFORMED
        if length > 0:
            pos += length
    return pos


@compiled(
    PAIR(
        *(BYTES, INT64S, INT64S, INT64S, INT64S, INT64S, INT64S, INT64S, INT64, INT64),
        *(INT64S, INT64S, INT64S, INT32S, INT64S, INT32S, INT64S),
    )
)
def walk(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    counts: Int64s,
    base_offsets: Int64s,
    base_timestamps: Int64s,
    append_time: Int64s,
    max_timestamps: Int64s,
    first_offset: int,
    end_offset: int,
    offsets: Int64s,
    timestamps: Int64s,
    key_at: Int64s,
    key_lengths: Int32s,
    value_at: Int64s,
    value_lengths: Int32s,
    header_at: Int64s,
) -> tuple[int, int]:
    """Fill in a row for each record with ``first_offset`` ≤ offset < ``end_offset``.

    - Batch ``i`` is at ``data[starts[i] : ends[i]]``; the caller has checked these bounds.
    - It has ``counts[i]`` records; the last seven arrays must have room for all records.
    - If ``append_time[i]`` is not 0, the batch's max timestamp replaces the timestamps of its records.

    Returns the number of rows, and the index of the first malformed batch or -1.
    """
    row = 0
    for batch in range(len(starts)):
        pos = starts[batch]
        end = ends[batch]
        base_offset = base_offsets[batch]
        base_timestamp = base_timestamps[batch]
        has_fixed = append_time[batch] != 0
        for _ in range(counts[batch]):
            length, pos = _varint(data, pos, end, 32)
            if pos < 0 or length < 1 or length > end - pos:
                return row, batch
            stop = pos + length
            pos += 1  # record attributes, unused in this format
            delta, pos = _varint(data, pos, stop, 64)
            if pos < 0:
                return row, batch
            if has_fixed:
                timestamp = max_timestamps[batch]
            # Checked before adding: the compiler assumes that sums do not overflow.
            elif (delta > 0 and base_timestamp > _INT64_MAX - delta) or (
                delta < 0 and base_timestamp < _INT64_MIN - delta
            ):
                return row, batch
            else:
                timestamp = base_timestamp + delta
            delta, pos = _varint(data, pos, stop, 32)
            if pos < 0 or base_offset > _INT64_MAX - max(delta, 0) or base_offset + delta < 0:
                return row, batch
            offset = base_offset + delta
            key_length, pos = _varint(data, pos, stop, 32)
            if pos < 0 or key_length > stop - pos:
                return row, batch
            key_pos = pos
            if key_length > 0:
                pos += key_length
            value_length, pos = _varint(data, pos, stop, 32)
            if pos < 0 or value_length > stop - pos:
                return row, batch
            value_pos = pos
            if value_length > 0:
                pos += value_length
            header_pos = pos
            if pos < stop and data[pos] == 0:
                pos += 1
            else:
                pos = _skip_headers(data, pos, stop)
            if pos != stop:
                return row, batch
            if first_offset <= offset < end_offset:
                offsets[row] = offset
                timestamps[row] = timestamp
                key_at[row] = key_pos
                key_lengths[row] = max(key_length, -1)
                value_at[row] = value_pos
                value_lengths[row] = max(value_length, -1)
                header_at[row] = header_pos
                row += 1
        if pos != end:
            return row, batch
    return row, _MALFORMED


@compiled(INT64(BYTES, INT64S, INT64, INT64, INT64, INT32S))
def count_headers(
    data: Bytes, header_at: Int64s, first: int, last: int, limit: int, list_offsets: Int32s
) -> int:
    """Fill in the start and end of each row's headers; returns the number of headers.

    The rows must come from ``walk`` over the same data, which has checked their headers. ``limit`` is the
    size of the data.
    """
    total = 0
    list_offsets[0] = 0
    for row in range(first, last):
        count, _ = _varint(data, header_at[row], limit, 32)
        total += count
        list_offsets[row - first + 1] = total
    return total


@compiled(types.void(BYTES, INT64S, INT64, INT64, INT64, INT64S, INT32S, INT64S, INT32S))
def locate_headers(
    data: Bytes,
    header_at: Int64s,
    first: int,
    last: int,
    limit: int,
    key_at: Int64s,
    key_lengths: Int32s,
    value_at: Int64s,
    value_lengths: Int32s,
) -> None:
    """Locate the key and value of each header; the arrays must have room for ``count_headers`` headers."""
    at = 0
    for row in range(first, last):
        count, pos = _varint(data, header_at[row], limit, 32)
        for _ in range(count):
            length, pos = _varint(data, pos, limit, 32)
            key_at[at] = pos
            key_lengths[at] = length
            pos += length
            length, pos = _varint(data, pos, limit, 32)
            value_at[at] = pos
            value_lengths[at] = max(length, -1)
            if length > 0:
                pos += length
            at += 1
