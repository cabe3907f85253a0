"""Rows of an Arrow batch as flat arrays for compiled code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ruslo.model.errors import ConfigError

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_NO_BYTES = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """Row i is ``data[offsets[i]:offsets[i + 1]]`` where ``present[i]``, else null."""

    data: Bytes
    offsets: Int64s
    present: Flags

    @classmethod
    def from_arrow(cls, column: pa.Array) -> BytesColumn:
        if pa.types.is_null(column.type):
            return cls.absent(len(column))
        if not (
            pa.types.is_binary(column.type)
            or pa.types.is_string(column.type)
            or pa.types.is_large_binary(column.type)
            or pa.types.is_large_string(column.type)
        ):
            raise ConfigError(f"a column must be binary or string, not {column.type}: cast it")
        wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
        _, offsets, data = column.buffers()
        if offsets is None or len(column) == 0:
            return cls.absent(len(column))
        kind = np.dtype(np.int64 if wide else np.int32)
        positions = np.frombuffer(offsets, kind)[column.offset : column.offset + len(column) + 1]
        octets = np.frombuffer(data, np.uint8) if data is not None and data.size else _NO_BYTES
        return cls(octets, positions.astype(np.int64), presence(column))

    @classmethod
    def absent(cls, rows: int) -> BytesColumn:
        return cls(_NO_BYTES, np.zeros(rows + 1, np.int64), np.zeros(rows, np.bool_))

    @property
    def sizes(self) -> Int64s:
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """The headers of row i are at ``offsets[i]`` to ``offsets[i + 1]`` of the names and values."""

    offsets: Int64s
    names: BytesColumn
    values: BytesColumn

    @classmethod
    def from_arrow(cls, column: pa.Array) -> HeaderColumn:
        if pa.types.is_null(column.type) or column.null_count == len(column):
            return cls.none(len(column))
        # A null list may still own elements in the buffer; list_value_length gives its true length.
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        offsets = np.zeros(len(column) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        pairs = column.flatten()
        names = pairs.field("key") if pairs.null_count == 0 else None
        if names is None or names.null_count:
            raise ConfigError("a row has a header whose key is null: fill the key, or drop the header")
        return cls(offsets, BytesColumn.from_arrow(names), BytesColumn.from_arrow(pairs.field("value")))

    @classmethod
    def none(cls, rows: int) -> HeaderColumn:
        return cls(np.zeros(rows + 1, np.int64), BytesColumn.absent(0), BytesColumn.absent(0))


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The records of one Arrow batch. ``partitions`` is -1 where the partitioner decides."""

    rows: int
    keys: BytesColumn
    values: BytesColumn
    headers: HeaderColumn
    timestamps_ms: Int64s
    partitions: npt.NDArray[np.int32] | None
    topics: pa.Array | None

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch, now_ms: int) -> RecordColumns:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        rows = batch.num_rows
        keys, headers = columns.get("key"), columns.get("headers")
        return cls(
            rows,
            BytesColumn.absent(rows) if keys is None else BytesColumn.from_arrow(keys),
            BytesColumn.from_arrow(columns["value"]),
            HeaderColumn.none(rows) if headers is None else HeaderColumn.from_arrow(headers),
            _timestamps(columns.get("timestamp"), rows, now_ms),
            _partitions(columns.get("partition")),
            columns.get("topic"),
        )

    @property
    def sizes(self) -> Int64s:
        return self.keys.sizes + self.values.sizes


def presence(column: pa.Array) -> Flags:
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    flags: Flags = column.is_valid().to_numpy(zero_copy_only=False)
    return flags


def _timestamps(column: pa.Array | None, rows: int, now_ms: int) -> Int64s:
    if column is None or pa.types.is_null(column.type):
        return np.full(rows, now_ms, np.int64)
    microseconds = pc.fill_null(
        column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), now_ms * 1000
    )
    found: Int64s = microseconds.to_numpy(zero_copy_only=False) // 1000
    if rows and found.min() < 0:
        raise ConfigError("a row's timestamp is before 1970, which a record cannot have: correct the column")
    return found


def _partitions(column: pa.Array | None) -> npt.NDArray[np.int32] | None:
    if column is None or column.null_count == len(column):
        return None
    found: npt.NDArray[np.int32] = pc.fill_null(column, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return found
