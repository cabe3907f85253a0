"""The micro-batch that a Spark task belongs to, from the local properties that Spark sets for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ruslo.pipeline.staging.identity import BatchIdentity

if TYPE_CHECKING:
    from pyspark import TaskContext

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"
"""Spark uses the id of a query's run as the group of its jobs."""


class TaskBatch(NamedTuple):
    """``query_id`` and ``batch_id`` are None for the tasks of a batch job."""

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
