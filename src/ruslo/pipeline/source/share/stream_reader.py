"""``format("ruslo")`` with option ``share.group.id``: a streaming query as a member of a share group.

- A share group has no offsets to plan from, so the driver acquires records, and their ranges are the "offset"
  that Spark writes to its checkpoint. Tasks fetch these offsets as in every query: acquired records remain
  readable. So a repeated task, and a batch that is repeated after a restart, reads the same records.
- Spark asks for the next batch when it has committed the previous one, whose records are accepted then. Their
  locks are renewed until that moment, however long the batch takes.
- When the query stops, however it ends, the process that holds the locks releases (or rejects) the records
  of the last batch. Spark may have committed it: it tells a source only with the next batch. After the
  restart Spark repeats an unfinished batch. Its records are accepted without another delivery when the group
  delivers them to this query again. Only another consumer that gets them in between processes them a second
  time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.data_loss import report_loss
from ruslo.pipeline.source.driver_client import DriverClient
from ruslo.pipeline.source.driver_plan import check_dead_letter_topic, check_nothing_missing
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import OffsetRange, plan_tasks
from ruslo.pipeline.source.scan_task import ScanTask, read_task
from ruslo.pipeline.source.share.holder_messages import Batch, Join
from ruslo.pipeline.source.share.holder_process import HolderProcess
from ruslo.pipeline.source.share.options import ShareOptions
from ruslo.pipeline.source.share.plan import SharePlan

_BYTES_PER_OFFSET = 1024.0
"""An estimate: a batch has at most as many records as the group locks."""


class ShareStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, share: ShareOptions, schema: StructType) -> None:
        self._options = options
        self._share = share
        self._schema = schema
        self._open_holder: HolderProcess | None = None
        self._target: dict[TopicPartition, int] | None = None
        """With AvailableNow: the end offsets when the query started. It ends when older records are done."""

    def __getstate__(self) -> dict[str, object]:
        return {"options": self._options, "share": self._share, "schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["options"], state["share"], state["schema"])  # type: ignore[misc]

    # -- on the driver

    def initialOffset(self) -> dict[str, Any]:
        return SharePlan().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``latestOffset`` applies maxOffsetsPerTrigger itself."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        client = DriverClient(self._options)
        try:
            self._target = client.latest(client.partitions())
        finally:
            client.close()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        processed = SharePlan.from_json(start)
        batch = self._holder(processed).next_batch(
            processed.offsets(), self._options.limits.max_offsets, is_last=self._target is not None
        )
        if not batch.records:
            return start
        if self._target is not None and not _begins_before(batch, self._target):
            self._holder(processed).release()
            return start
        return SharePlan(processed.batch + 1, batch.records, batch.unaccepted).to_json()

    def _holder(self, processed: SharePlan) -> HolderProcess:
        if self._open_holder is None:
            self._check_topics()
            self._open_holder = HolderProcess(
                Join(
                    self._options.client,
                    self._share.group_id,
                    self._options.subscription.topics,
                    self._share.on_failure,
                    dict(processed.unaccepted),
                )
            )
        return self._open_holder

    def _check_topics(self) -> None:
        client = DriverClient(self._options)
        try:
            check_nothing_missing(self._options.subscription, client.partitions())
            check_dead_letter_topic(client, self._options)
        finally:
            client.close()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start == end:
            return []
        by_partition: dict[TopicPartition, tuple[AcquiredRange, ...]] = {}
        whole: list[OffsetRange] = []
        for (topic, topic_id, number), ranges in SharePlan.from_json(end).acquired.items():
            partition = TopicPartition(topic, number)
            if partition in by_partition:
                report_loss(
                    f"topic {topic} was deleted and recreated while its records were acquired",
                    fail=self._options.fail_on_data_loss,
                )
                continue
            by_partition[partition] = ranges
            first, end_offset = ranges[0].first, ranges[-1].last + 1
            whole.append(OffsetRange(partition, topic_id, first, end_offset, _BYTES_PER_OFFSET))
        tasks = plan_tasks(
            whole,
            self._options.bytes_per_task,
            min_tasks=self._options.min_partitions,
            max_records_per_task=self._options.max_records_per_partition,
        )
        return [
            ScanTask(ranges, acquired={each.partition: by_partition[each.partition] for each in ranges})
            for ranges in tasks
        ]

    def stop(self) -> None:
        holder, self._open_holder = self._open_holder, None
        if holder is not None:
            holder.stop()

    # -- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._schema)


def _begins_before(batch: Batch, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether the batch has a record before the ends."""
    return any(
        ranges[0].first < ends.get(partition.topic_partition, 0)
        for partition, ranges in batch.records.items()
    )
