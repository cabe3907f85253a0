"""The compiled encoder: flat arrays to the bytes of records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit, types

from ruslo.pipeline.decode.compiled import BYTES, INT64, INT64S, OUT_BYTES, compiled
from ruslo.pipeline.decode.gather import copy_bytes

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_FLAGS = types.Array(types.boolean, 1, "C", readonly=True)
_NULL_SIZE = 1


@njit(inline="always")
def _zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)


@njit(inline="always")
def _varint_size(value: int) -> int:
    left = np.uint64(_zigzag(value))
    size = 1
    while left > np.uint64(0x7F):
        left >>= np.uint64(7)
        size += 1
    return size


@njit(inline="always")
def _put_varint(out: Bytes, pos: int, value: int) -> int:
    left = np.uint64(_zigzag(value))
    while left > np.uint64(0x7F):
        out[pos] = np.uint8(left & np.uint64(0x7F)) | np.uint8(0x80)
        left >>= np.uint64(7)
        pos += 1
    out[pos] = np.uint8(left)
    return pos + 1


@njit(inline="always")
def _field_size(present: bool, length: int) -> int:
    return _varint_size(length) + length if present else _NULL_SIZE


@njit(inline="always")
def _put_field(out: Bytes, pos: int, present: bool, data: Bytes, at: int, length: int) -> int:
    if not present:
        return _put_varint(out, pos, -1)
    pos = _put_varint(out, pos, length)
    if length > 0:
        copy_bytes(out, pos, data, at, length)
    return pos + length


@compiled(
    types.UniTuple(INT64, 3)(  # type: ignore[no-untyped-call]
        *(INT64S, INT64, INT64, INT64S),
        *(BYTES, INT64S, _FLAGS),
        *(BYTES, INT64S, _FLAGS),
        *(INT64S, BYTES, INT64S, BYTES, INT64S, _FLAGS),
        *(OUT_BYTES, INT64, INT64, INT64, INT64),
    )
)
def encode_rows(
    order: Int64s,
    first: int,
    last: int,
    timestamps: Int64s,
    key_data: Bytes,
    key_offsets: Int64s,
    key_present: Flags,
    value_data: Bytes,
    value_offsets: Int64s,
    value_present: Flags,
    header_offsets: Int64s,
    name_data: Bytes,
    name_offsets: Int64s,
    header_data: Bytes,
    header_value_offsets: Int64s,
    header_present: Flags,
    out: Bytes,
    pos: int,
    limit: int,
    base_timestamp: int,
    count: int,
) -> tuple[int, int, int]:
    """Append rows ``order[first:last]`` at ``pos`` of a batch that has ``count`` records.

    Stops at the first record that would exceed ``limit`` (a batch always takes one record, whatever its size)
    or that does not fit into ``out``. Returns the next row, the new end, and the bytes that the next row
    needs (0 if the batch is full or all rows are encoded).
    """
    for i in range(first, last):
        row = order[i]
        key_size = key_offsets[row + 1] - key_offsets[row]
        value_size = value_offsets[row + 1] - value_offsets[row]
        first_header, last_header = header_offsets[row], header_offsets[row + 1]
        delta = timestamps[row] - base_timestamp
        size = (
            1
            + _varint_size(delta)
            + _varint_size(count)
            + _field_size(key_present[row], key_size)
            + _field_size(value_present[row], value_size)
            + _varint_size(last_header - first_header)
        )
        for h in range(first_header, last_header):
            size += _field_size(True, name_offsets[h + 1] - name_offsets[h])
            size += _field_size(header_present[h], header_value_offsets[h + 1] - header_value_offsets[h])
        total = _varint_size(size) + size
        if count > 0 and pos + total > limit:
            return i, pos, 0
        if pos + total > len(out):
            return i, pos, total
        pos = _put_varint(out, pos, size)
        out[pos] = 0
        pos = _put_varint(out, pos + 1, delta)
        pos = _put_varint(out, pos, count)
        pos = _put_field(out, pos, key_present[row], key_data, key_offsets[row], key_size)
        pos = _put_field(out, pos, value_present[row], value_data, value_offsets[row], value_size)
        pos = _put_varint(out, pos, last_header - first_header)
        for h in range(first_header, last_header):
            at, end = name_offsets[h], name_offsets[h + 1]
            pos = _put_field(out, pos, True, name_data, at, end - at)
            at, end = header_value_offsets[h], header_value_offsets[h + 1]
            pos = _put_field(out, pos, header_present[h], header_data, at, end - at)
        count += 1
    return last, pos, 0
