"""What travels from the driver to a Spark task, and the way into the code that carries it out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import Span

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class ScanTask(InputPartition):
    spans: tuple[Span, ...]
    min_timestamp: int | None = None


def read_task(task: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Spark invents a task of its own where nothing was planned."""
    if not isinstance(task, ScanTask):
        return iter(())
    # The decoder takes half a second to load. Only tasks need it; queries are planned without.
    from ruslo.pipeline.source.task import run_task

    return run_task(task.spans, task.min_timestamp, options, schema)
