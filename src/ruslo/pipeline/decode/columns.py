"""Rows as Arrow columns."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ruslo.pipeline.decode.gather import gather
from ruslo.pipeline.decode.rows import Rows
from ruslo.pipeline.decode.walker import Bytes, Int32s, Int64s

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_MAX_MS: Final = (1 << 63) // 1000 - 1


def binary_column(
    data: Bytes, at: Int64s, lengths: Int32s, first: int, last: int, kind: pa.DataType
) -> pa.Array:
    """Rows first..last as binary, or as string if the caller has checked the bytes."""
    part = lengths[first:last]
    nulls = part < 0
    size = int(np.maximum(part, 0).sum(dtype=np.int64))
    offsets = pa.allocate_buffer(4 * (len(part) + 1))
    values = pa.allocate_buffer(size)
    # numpy cannot wrap an empty buffer.
    out = np.frombuffer(values, dtype=np.uint8) if size else np.empty(0, np.uint8)
    gather(data, at, lengths, first, last, np.frombuffer(offsets, dtype=np.int32), out)
    null_count = int(np.count_nonzero(nulls))
    validity = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if null_count else None
    return pa.Array.from_buffers(kind, len(part), [validity, offsets, values], null_count)


def key_column(rows: Rows, first: int, last: int) -> pa.Array:
    return binary_column(rows.data, rows.key_at, rows.key_lengths, first, last, pa.binary())


def value_column(rows: Rows, first: int, last: int) -> pa.Array:
    return binary_column(rows.data, rows.value_at, rows.value_lengths, first, last, pa.binary())


def offset_column(rows: Rows, first: int, last: int) -> pa.Array:
    return pa.array(rows.offsets[first:last])


def delivery_count_column(rows: Rows, first: int, last: int) -> pa.Array:
    assert rows.delivery_counts is not None, "the query reads as a share group"
    return pa.array(rows.delivery_counts[first:last])


def timestamp_column(rows: Rows, first: int, last: int) -> pa.Array:
    """Spark's timestamps are microseconds; times outside their range are clipped."""
    milliseconds = np.clip(rows.timestamps[first:last], -_MAX_MS, _MAX_MS)
    return pa.array(milliseconds * 1000).cast(TIMESTAMP)


def timestamp_type_column(rows: Rows, first: int, last: int) -> pa.Array:
    """0 is CreateTime, 1 is LogAppendTime, as in Kafka."""
    return pa.array(rows.append_time[first:last].astype(np.int32))


def headers_column(rows: Rows, first: int, last: int) -> pa.Array:
    """Lists of key and value; null for a record without headers, as in Spark's own connector."""
    ends, key_at, key_lengths, value_at, value_lengths = rows.header_positions(first, last)
    total = len(key_at)
    keys = text(binary_column(rows.data, key_at, key_lengths, 0, total, pa.binary()))
    values = binary_column(rows.data, value_at, value_lengths, 0, total, pa.binary())
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    empty = np.diff(ends) == 0
    validity = pa.py_buffer(np.packbits(~empty, bitorder="little"))
    return pa.ListArray.from_buffers(
        HEADERS, last - first, [validity, pa.py_buffer(ends)], int(empty.sum()), 0, [pairs]
    )


def text(column: pa.Array) -> pa.Array:
    """Bytes as text. Kafka does not check header keys, so they may not be UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in column.to_pylist()], pa.string())
