"""Runs a task of the source: reads its offset ranges and yields Arrow batches."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ruslo.pipeline.decode.acquired_rows import acquired_rows
from ruslo.pipeline.source.chunk import Chunk
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.payload_stage import PayloadStage
from ruslo.pipeline.source.planning import OffsetRange
from ruslo.pipeline.source.record_batches import joined, slices
from ruslo.pipeline.source.scan_task import ScanTask

_frozen = False


def run_task(task: ScanTask, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of the task's ranges, without batches whose records are all older than its timestamp."""
    freeze_loaded_objects()
    return joined(_batches(task, options, to_arrow_schema(schema, timezone="UTC")))


def _batches(task: ScanTask, options: SourceOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with closing(PayloadStage(options, schema)) as stage:
        for chunk in _chunks(task.ranges, options):
            acquired = task.acquired.get(chunk.offset_range.partition)
            for rows in chunk.rows(read_committed=options.read_committed, min_timestamp=task.min_timestamp):
                if acquired is not None:
                    rows = acquired_rows(rows, acquired)
                for first, last in slices(rows):
                    yield stage.batch(chunk.offset_range.partition, rows, first, last)


def _chunks(ranges: tuple[OffsetRange, ...], options: SourceOptions) -> Iterator[Chunk]:
    if options.scan == "direct":
        from ruslo.pipeline.source.direct_scan import scan_direct

        return scan_direct(ranges, options)
    from ruslo.pipeline.source.fetching import scan_wire

    return scan_wire(ranges, options)


def freeze_loaded_objects() -> None:
    """Exclude the objects of loaded libraries from garbage collection, once per worker process.

    A worker runs a full collection after every task. With the decoder's libraries loaded that takes 90 ms,
    and none of their objects ever becomes garbage.
    """
    global _frozen
    if not _frozen and TaskContext.get() is not None:
        gc.freeze()
        _frozen = True
