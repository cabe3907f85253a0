"""``spark.readStream.format("ruslo")``: what each micro-batch reads.

- Spark requests the end of the next batch, writes it to the checkpoint, and plans the batch from it. After a
  restart it plans the same pair of offsets again.
- The start of the first batch is requested again after a restart and may have moved, so the end of the first
  batch records its start as well.
- One copy of the reader runs in a process beside the driver and keeps its connections. Copies in tasks only
  read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ruslo.client.wire.metadata import TopicInfo
from ruslo.model.clock import SystemClock
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.driver_client import DriverClient, topic_ids
from ruslo.pipeline.source.driver_plan import (
    check_dead_letter_topic,
    check_nothing_missing,
    plan_scan,
    resume,
)
from ruslo.pipeline.source.limits import limit_ends
from ruslo.pipeline.source.offsets import SourceOffsets
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.scan_task import read_task

_UNLIMITED_ROWS = (1 << 63) - 1


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._clock = SystemClock()
        self._open_client: DriverClient | None = None
        self._target: tuple[dict[TopicPartition, TopicInfo], dict[TopicPartition, int]] | None = None
        """With AvailableNow: the partitions and end offsets when the query started, where it ends."""
        self._initial: dict[str, Any] | None = None
        self._newest: SourceOffsets | None = None
        self._last_batch_ms: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"options": self._options, "schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["options"], state["schema"])  # type: ignore[misc]  # without connections

    @property
    def _client(self) -> DriverClient:
        if self._open_client is None:
            self._open_client = DriverClient(self._options)
        return self._open_client

    # -- on the driver

    def initialOffset(self) -> dict[str, Any]:
        partitions = self._client.partitions()
        check_nothing_missing(self._options.subscription, partitions)
        check_dead_letter_topic(self._client, self._options)
        starts = self._client.resolve(self._options.starting, partitions)
        self._initial = SourceOffsets(topic_ids(partitions.values()), starts).to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark passes this limit back to ``latestOffset``, or ReadAllAvailable for a batch without limits.

        Spark cannot combine limits; ``latestOffset`` applies all limits of the options in any case.
        """
        limits = self._options.limits
        if limits.max_offsets:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes:
            return ReadMaxBytes(limits.max_bytes)
        if limits.has_maximum:
            return ReadMaxRows(_UNLIMITED_ROWS)
        return ReadMinRows(limits.min_offsets) if limits.min_offsets else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._client.snapshot()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        began = SourceOffsets.from_json(start)
        partitions, ends = self._target or self._client.snapshot()
        ids = topic_ids(partitions.values())
        self._newest = SourceOffsets(ids, ends)
        starts = resume(began, self._newest, self._client, fail_on_data_loss=self._options.fail_on_data_loss)
        if not isinstance(limit, ReadAllAvailable):
            if self._waits_for_more(starts, ends):
                return start
            ends = self._within_limits(partitions, starts, ends)
        reached = {
            partition: end
            for partition, end in ends.items()
            # A new, empty partition would change the offsets and cause a batch without records.
            if partition in began.offsets or end > starts[partition]
        }
        is_first = start == self._initial
        if not is_first and SourceOffsets(ids, reached).to_json() == began.reached().to_json():
            return start
        self._last_batch_ms = self._clock.monotonic_ms()
        since = {partition: starts[partition] for partition in reached} if is_first else {}
        return SourceOffsets(ids, reached, since).to_json()

    def _waits_for_more(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> bool:
        limits = self._options.limits
        if not limits.min_offsets or self._last_batch_ms is None or self._target is not None:
            return False
        available = sum(max(0, end - starts[partition]) for partition, end in ends.items())
        waited_ms = self._clock.monotonic_ms() - self._last_batch_ms
        return available < limits.min_offsets and waited_ms < limits.max_delay_ms

    def _within_limits(
        self,
        partitions: Mapping[TopicPartition, TopicInfo],
        starts: Mapping[TopicPartition, int],
        ends: dict[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        limits = self._options.limits
        if not limits.has_maximum:
            return ends
        sizes = self._client.bytes_per_offset(partitions) if limits.counts_bytes else {}
        return limit_ends(starts, ends, limits, sizes)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._newest is None else self._newest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start == end:
            return []
        until = SourceOffsets.from_json(end)
        began = SourceOffsets(until.topic_ids, until.since) if until.since else SourceOffsets.from_json(start)
        starts = resume(began, until, self._client, fail_on_data_loss=self._options.fail_on_data_loss)
        return [*plan_scan(self._client, self._options, until.topic_ids, starts, until.offsets)]

    def stop(self) -> None:
        if self._open_client is not None:
            self._open_client.close()
            self._open_client = None

    # -- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._schema)
