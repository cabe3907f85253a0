"""The progress of queries as a consumer group, so that every tool that shows lag shows theirs.

Spark keeps offsets in its checkpoint and reads from there alone; what is published here is for people to see.
A listener does it, not the source: a source hears of a finished batch only when the next one begins, and of
the last one never.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from ruslo.client.coordinators import Coordinators
from ruslo.client.group_offsets import GroupOffsets
from ruslo.model.errors import RusloError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.client_properties import ClientProperties
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

log = logging.getLogger(__name__)

_AGAIN_AFTER_S = 600.0
"""Offsets that do not change are committed again, or brokers forget them after offsets.retention.minutes."""
_SCAN = "StreamingDataSourceV2ScanRelation"


class SourceGroup(NamedTuple):
    client: ClientProperties
    group_id: str


@dataclass(slots=True)
class _Published:
    offsets: Mapping[TopicPartition, int]
    at_s: float


class GroupOffsetListener(StreamingQueryListener):
    """``spark.streams.addListener(GroupOffsetListener(spark))``; new_session and register do it for you.

    It looks at queries that read format("ruslo") with option ``group.id``. A commit that fails is logged: no
    query ends because of it.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._executions: dict[str, Any] = {}
        """By run the query's object in the JVM, which tells the options of its sources."""
        self._groups: dict[str, dict[str, SourceGroup]] = {}
        self._published: dict[SourceGroup, _Published] = {}
        self._problem: str | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        query = self._spark.streams.get(str(event.id))
        if query is not None:
            # Kept from the beginning: when the last progress arrives the query is no longer listed.
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
                    self._publish(group, SourceOffsets.from_json(source.endOffset).offsets)
        except RusloError as error:
            self._report(f"the progress of query {progress.name or progress.id} is not published: {error}")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing was read; what was published holds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._executions.pop(str(event.runId), None)
        self._groups.pop(str(event.runId), None)

    def _groups_of(self, run_id: str) -> dict[str, SourceGroup]:
        if run_id not in self._groups and run_id in self._executions:
            self._groups[run_id] = _source_groups(self._executions[run_id])
        return self._groups.get(run_id, {})

    def _publish(self, group: SourceGroup, offsets: Mapping[TopicPartition, int]) -> None:
        last = self._published.get(group)
        now_s = time.monotonic()
        if last is not None and last.offsets == offsets and now_s < last.at_s + _AGAIN_AFTER_S:
            return
        asyncio.run(publish(group, offsets))
        self._published[group] = _Published(offsets, now_s)
        self._problem = None

    def _report(self, problem: str) -> None:
        if problem != self._problem:  # batches are many, one line is enough
            log.warning(problem)
        self._problem = problem


async def publish(group: SourceGroup, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit for a group that has no members; raises what the coordinator answers."""
    if not offsets:
        return
    async with group.client.new_cluster() as cluster:
        outcomes = await GroupOffsets(cluster, Coordinators(cluster)).alter(group.group_id, offsets)
    for outcome in outcomes.values():
        if outcome is not None:
            raise outcome


def _source_groups(execution: Any) -> dict[str, SourceGroup]:
    """By description (as in progress reports) the groups of the sources that have one."""
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
