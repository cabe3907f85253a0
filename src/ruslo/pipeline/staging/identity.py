"""The names of a query's micro-batches and of batch jobs, in Kafka and in the staging folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark import TaskContext

_PREFIX = "ruslo"
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"
"""Spark uses the id of a query's run as the group of its jobs."""


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """Identifies a micro-batch of a query. It is the same after a restart from the same checkpoint.

    The query's id comes from the checkpoint. Without it, a query with a new checkpoint, which starts at batch
    0 again, would find its batches already written.
    """

    sink_name: str
    query_id: str
    batch_id: int

    @property
    def transactional_id(self) -> str:
        return f"{_PREFIX}-{self.sink_name}-{self.query_id}"

    @property
    def marker_group(self) -> str:
        """The consumer group whose committed offset is the id of the last written batch."""
        return self.transactional_id

    @property
    def staging_folder(self) -> str:
        return f"{self.query_folder}/{self.batch_id}"

    @property
    def query_folder(self) -> str:
        return f"{self.sink_name}-{self.query_id}"


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """Identifies a batch job, whose id is never used again."""

    sink_name: str
    job_id: str

    @property
    def transactional_id(self) -> str:
        return f"{_PREFIX}-{self.sink_name}-job-{self.job_id}"

    @property
    def staging_folder(self) -> str:
        return f"{self.sink_name}-job-{self.job_id}"


class TaskBatch(NamedTuple):
    """The micro-batch that a Spark task belongs to, from the local properties that Spark sets for it.

    ``query_id`` and ``batch_id`` are None for the tasks of a batch job.
    """

    query_id: str | None = None
    batch_id: int | None = None
    run_id: str = ""
    """Separates attempts of a batch: after a restart a changed schema may reject other records."""

    @classmethod
    def of(cls, context: TaskContext) -> TaskBatch:
        batch_id = context.getLocalProperty(_BATCH_ID)
        return cls(
            context.getLocalProperty(_QUERY_ID),
            None if batch_id is None else int(batch_id),
            context.getLocalProperty(_RUN_ID) or "run",
        )

    def identity(self, sink_name: str) -> BatchIdentity:
        """Raises RuntimeError for the tasks of a batch job."""
        if self.query_id is None or self.batch_id is None:
            raise RuntimeError(f"Spark did not set {_QUERY_ID} and {_BATCH_ID}: the task is not of a stream")
        return BatchIdentity(sink_name, self.query_id, self.batch_id)
