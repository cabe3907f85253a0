"""A listener that publishes the progress of queries as consumer groups.

Classic sessions use this listener rather than the source, which learns of a finished batch only when the next
one starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from ruslo.model.errors import RusloError
from ruslo.pipeline.group_progress import GroupProgress, SourceGroup
from ruslo.pipeline.source.offsets import SourceOffsets
from ruslo.pipeline.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_SCAN = "StreamingDataSourceV2ScanRelation"


class GroupOffsetListener(StreamingQueryListener):
    """``spark.streams.addListener(GroupOffsetListener(spark))``; new_session and register add it.

    It serves queries that read format("ruslo") with option ``group.id``. A failed commit is logged and does
    not fail the query.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._executions: dict[str, Any] = {}
        """The query's object in the JVM by run id; it has the options of the query's sources."""
        self._groups: dict[str, dict[str, SourceGroup]] = {}
        self._progress = GroupProgress()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        query = self._spark.streams.get(str(event.id))
        if query is not None:
            # Kept from the start: the query is no longer listed when its last progress arrives.
            wrapped = query._jsq
            is_wrapper = wrapped.getClass().getSimpleName() == "StreamingQueryWrapper"
            self._executions[str(event.runId)] = wrapped.streamingQuery() if is_wrapper else wrapped

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        try:
            groups = self._groups_of(str(progress.runId))
            for source in progress.sources:
                group = groups.get(source.description)
                if group is not None and source.endOffset not in (None, "null"):
                    self._progress.publish(group, SourceOffsets.from_json(source.endOffset).offsets)
        except RusloError as error:
            self._progress.log_failure(f"query {progress.name or progress.id}", error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing was read, so the committed offsets stay valid."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._executions.pop(str(event.runId), None)
        self._groups.pop(str(event.runId), None)

    def _groups_of(self, run_id: str) -> dict[str, SourceGroup]:
        if run_id not in self._groups and run_id in self._executions:
            self._groups[run_id] = _source_groups(self._executions[run_id])
        return self._groups.get(run_id, {})


def _source_groups(execution: Any) -> dict[str, SourceGroup]:
    """The groups of the sources that have one, by the source's description in progress reports."""
    found: dict[str, SourceGroup] = {}
    leaves = execution.logicalPlan().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() != _SCAN or "Python" not in leaf.stream().getClass().getName():
            continue
        options = {str(name): str(value) for name, value in leaf.relation().options().items()}
        if not options.keys() & {"group.id", "kafka.group.id"}:
            continue
        parsed = SourceOptions.parse(options, streaming=True)
        if parsed.group_id is not None:
            found[leaf.stream().toString()] = SourceGroup(parsed.client, parsed.group_id)
    return found
