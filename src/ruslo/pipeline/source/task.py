"""What a Spark task does: reads its spans and gives Arrow batches. It knows nothing but its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ruslo.pipeline.source.chunk import Chunk
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.payload_stage import PayloadStage
from ruslo.pipeline.source.planning import Span
from ruslo.pipeline.source.record_batches import joined, slices
from ruslo.pipeline.worker_garbage import spare_collections


def run_task(
    spans: tuple[Span, ...], min_timestamp: int | None, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """All rows of the spans but for batches that hold nothing as young as ``min_timestamp``."""
    spare_collections()
    return joined(_batches(spans, min_timestamp, options, to_arrow_schema(schema, timezone="UTC")))


def _batches(
    spans: tuple[Span, ...], min_timestamp: int | None, options: SourceOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    with closing(PayloadStage(options, schema)) as stage:
        for chunk in _chunks(spans, options):
            for rows in chunk.rows(read_committed=options.read_committed, min_timestamp=min_timestamp):
                for first, last in slices(rows):
                    yield stage.batch(chunk.span.partition, rows, first, last)


def _chunks(spans: tuple[Span, ...], options: SourceOptions) -> Iterator[Chunk]:
    if options.scan == "direct":
        from ruslo.pipeline.source.direct_scan import scan_direct

        return scan_direct(spans, options)
    from ruslo.pipeline.source.wire_scan import scan_wire

    return scan_wire(spans, options)
