"""Builds the Arrow batches that Spark reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode import columns
from ruslo.pipeline.decode.rows import Rows

ROWS_PER_BATCH: Final = 10_000
"""Measured: smaller batches cost more per row, larger ones do not fit into the CPU cache."""
_BYTES_PER_BATCH: Final = 32 * 1024 * 1024
_LARGE_BYTES: Final = 512 * 1024

_COLUMNS: Final[dict[str, Callable[[Rows, int, int], pa.Array]]] = {
    "key": columns.key_column,
    "value": columns.value_column,
    "offset": columns.offset_column,
    "timestamp": columns.timestamp_column,
    "timestampType": columns.timestamp_type_column,
    "headers": columns.headers_column,
    "delivery_count": columns.delivery_count_column,
}


def slices(rows: Rows) -> Iterator[tuple[int, int]]:
    """Slices of at most ROWS_PER_BATCH rows; fewer if values are large, as Arrow's offsets have 32 bits."""
    sizes = np.maximum(rows.value_lengths, 0).astype(np.int64) + np.maximum(rows.key_lengths, 0)
    if int(sizes.sum()) <= _BYTES_PER_BATCH:
        yield from ((at, min(at + ROWS_PER_BATCH, len(rows))) for at in range(0, len(rows), ROWS_PER_BATCH))
        return
    ends = np.cumsum(sizes)
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        fitting = int(np.searchsorted(ends, before + _BYTES_PER_BATCH, side="right"))
        last = min(max(fitting, first + 1), first + ROWS_PER_BATCH)
        yield first, last
        first = last


class RecordBatches:
    """Builds batches with exactly the columns of ``schema``, as Spark requires."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._topics: dict[str, pa.Array] = {}
        self._partitions: dict[int, pa.Array] = {}

    def build(
        self, partition: TopicPartition, rows: Rows, first: int, last: int, given: dict[str, pa.Array]
    ) -> pa.RecordBatch:
        """Rows first..last. Columns in ``given`` replace those of the rows."""
        arrays = [
            given[name] if name in given else self._column(name, partition, rows, first, last)
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, partition: TopicPartition, rows: Rows, first: int, last: int) -> pa.Array:
        count = last - first
        if name == "topic":
            return self._topic(partition.topic)[:count]
        if name == "partition":
            return self._partition(partition.partition)[:count]
        return _COLUMNS[name](rows, first, last)

    # A task reads few partitions, so these two columns are cached for all its batches.

    def _topic(self, topic: str) -> pa.Array:
        if topic not in self._topics:
            self._topics[topic] = pa.repeat(pa.scalar(topic, pa.string()), ROWS_PER_BATCH)
        return self._topics[topic]

    def _partition(self, number: int) -> pa.Array:
        if number not in self._partitions:
            self._partitions[number] = pa.array(np.full(ROWS_PER_BATCH, number, np.int32))
        return self._partitions[number]


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Concatenate small batches: each batch costs Spark as much as thousands of rows.

    Large batches are not concatenated, because that would copy them.
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if rows and (rows + batch.num_rows > ROWS_PER_BATCH or batch.nbytes >= _LARGE_BYTES):
            yield _concatenated(waiting)
            waiting, rows = [], 0
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_BATCH // 2 or batch.nbytes >= _LARGE_BYTES:
            yield _concatenated(waiting)
            waiting, rows = [], 0
    if rows:
        yield _concatenated(waiting)


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
