"""Encodes Arrow batches to record batches: one open batch per topic partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.partitioner import partitions_of_keys, stick_keyless
from ruslo.pipeline.sink.record_columns import RecordColumns
from ruslo.pipeline.sink.record_encoder import encode_rows
from ruslo.records.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC_V2, NO_PRODUCER_ID, NO_SEQUENCE
from ruslo.records.builder import set_crc
from ruslo.records.compression import compress

_FIRST_BUFFER_BYTES = 4 * 1024
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class EncodedBatch(NamedTuple):
    target: TopicPartition
    records: bytearray
    """One record batch, without a producer id."""
    record_count: int


@dataclass(eq=False)
class BatchEncoder:
    """Encodes the rows of one task. Rows of a partition keep their order.

    ``partition_count`` returns the number of partitions of a topic. ``seed`` makes tasks start with different
    partitions for records without a key.
    """

    _: KW_ONLY
    topic: str | None
    partition_count: Callable[[str], int]
    batch_bytes: int
    codec: int
    level: int | None
    now_ms: Callable[[], int]
    seed: int

    def __post_init__(self) -> None:
        self._keyless_bytes: dict[str, int] = {}
        self._open: dict[TopicPartition, _OpenBatch] = {}

    def add(self, arrow: pa.RecordBatch) -> Iterator[EncodedBatch]:
        """Add rows; yields the batches that became full."""
        if arrow.num_rows == 0:
            return
        columns = RecordColumns.from_arrow(arrow, self.now_ms())
        for topic, rows in self._rows_by_topic(columns):
            targets = self._partitions(topic, columns, rows)
            # A stable sort keeps the order of rows within a partition.
            by_target = np.argsort(targets, kind="stable")
            ordered = rows[by_target]
            numbers, starts = np.unique(targets[by_target], return_index=True)
            ends = [*starts[1:].tolist(), len(ordered)]
            for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
                yield from self._append(TopicPartition(topic, number), columns, ordered, start, end)

    def finish(self) -> Iterator[EncodedBatch]:
        """Yield all open batches."""
        batches, self._open = self._open, {}
        for target, batch in batches.items():
            if batch.count:
                yield batch.close(target, self.codec, self.level)

    def _append(
        self, target: TopicPartition, columns: RecordColumns, rows: Int64s, row: int, end: int
    ) -> Iterator[EncodedBatch]:
        batch = self._open.get(target)
        if batch is None:
            batch = self._open[target] = _OpenBatch(self.batch_bytes)
        while True:
            row = batch.append(columns, rows, row, end)
            if row == end:
                return
            yield batch.close(target, self.codec, self.level)

    def _rows_by_topic(self, columns: RecordColumns) -> Iterator[tuple[str, Int64s]]:
        if self.topic is not None:
            yield self.topic, np.arange(columns.rows, dtype=np.int64)
            return
        if columns.topics is None or columns.topics.null_count:
            raise ConfigError(
                "a row has no topic: its column 'topic' is null; fill the column, or set option 'topic'"
            )
        encoded = columns.topics.dictionary_encode()
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        for number, topic in enumerate(encoded.dictionary.to_pylist()):
            yield topic, np.flatnonzero(indices == number)

    def _partitions(self, topic: str, columns: RecordColumns, rows: Int64s) -> Int32s:
        count = self.partition_count(topic)
        keys = columns.keys
        targets = np.empty(columns.rows, np.int32)
        partitions_of_keys(keys.data, keys.offsets, keys.present, count, targets)
        if columns.partitions is not None:
            _check_partitions(topic, count, columns.partitions[rows])
            targets = np.where(columns.partitions >= 0, columns.partitions, targets)
        chosen: Int32s = targets[rows]
        already = self._keyless_bytes.get(topic, self.seed % count * self.batch_bytes)
        self._keyless_bytes[topic] = stick_keyless(
            chosen, columns.sizes[rows], count, already, self.batch_bytes
        )
        return chosen


class _OpenBatch:
    """The batch of a partition that is being filled. The next batch reuses its buffer."""

    def __init__(self, batch_bytes: int) -> None:
        self._limit = batch_bytes
        self._buffer = np.empty(max(HEADER_SIZE, min(_FIRST_BUFFER_BYTES, batch_bytes)), np.uint8)
        self._end = HEADER_SIZE
        self._base_timestamp = 0
        self._max_timestamp = 0
        self.count = 0

    def append(self, columns: RecordColumns, rows: Int64s, first: int, last: int) -> int:
        """Append rows first..last; returns the first row that does not fit into this batch."""
        keys, values, headers = columns.keys, columns.values, columns.headers
        while True:
            if self.count == 0:
                self._base_timestamp = self._max_timestamp = int(columns.timestamps_ms[rows[first]])
            row, self._end, missing = encode_rows(
                rows,
                first,
                last,
                columns.timestamps_ms,
                keys.data,
                keys.offsets,
                keys.present,
                values.data,
                values.offsets,
                values.present,
                headers.offsets,
                headers.names.data,
                headers.names.offsets,
                headers.values.data,
                headers.values.offsets,
                headers.values.present,
                self._buffer,
                self._end,
                self._limit,
                self._base_timestamp,
                self.count,
            )
            if row > first:
                newest = int(columns.timestamps_ms[rows[first:row]].max())
                self._max_timestamp = max(self._max_timestamp, newest)
                self.count += row - first
                first = row
            if not missing:
                return row
            self._grow(missing)

    def _grow(self, missing: int) -> None:
        wanted = max(self._end + missing, min(4 * len(self._buffer), self._limit))
        grown = np.empty(wanted, np.uint8)
        grown[: self._end] = self._buffer[: self._end]
        self._buffer = grown

    def close(self, target: TopicPartition, codec: int, level: int | None) -> EncodedBatch:
        """The finished batch; the next record starts a new one."""
        body = memoryview(self._buffer.data)[HEADER_SIZE : self._end]
        out = bytearray(HEADER_SIZE)
        out += compress(codec, body, level) if codec else body
        length = len(out) - LENGTH_OVERHEAD
        last = self.count - 1
        times = self._base_timestamp, self._max_timestamp
        HEADER.pack_into(
            out, 0, 0, length, -1, MAGIC_V2, 0, codec, last, *times, NO_PRODUCER_ID, -1, NO_SEQUENCE, last + 1
        )
        set_crc(out)
        count, self.count = self.count, 0
        self._end = HEADER_SIZE
        return EncodedBatch(target, out, count)


def _check_partitions(topic: str, count: int, wanted: Int32s) -> None:
    if len(wanted) and (wanted.max() >= count or wanted.min() < -1):
        worst = int(wanted.max() if wanted.max() >= count else wanted.min())
        raise ConfigError(
            f"a row names partition {worst} of topic {topic!r}, which has {count} partitions: "
            "correct the column 'partition', or drop it to partition by key"
        )
