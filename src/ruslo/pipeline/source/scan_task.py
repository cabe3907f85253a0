"""The task that the driver sends to executors, and the entry to the code that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ScanTask(InputPartition):
    ranges: tuple[OffsetRange, ...]
    min_timestamp: int | None = None
    acquired: Mapping[TopicPartition, tuple[AcquiredRange, ...]] = field(default_factory=dict)
    """The records of a share group, by partition: the others of ``ranges`` are not read."""


def read_task(task: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Spark creates a task of its own if none was planned."""
    if not isinstance(task, ScanTask):
        return iter(())
    # The decoder takes half a second to load, and only tasks need it.
    from ruslo.pipeline.source.task import run_task

    return run_task(task, options, schema)
