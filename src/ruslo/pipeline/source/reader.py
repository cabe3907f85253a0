"""``spark.read.format("ruslo")``: reads topics up to end offsets that are fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.driver_client import DriverClient, topic_ids
from ruslo.pipeline.source.driver_plan import check_dead_letter_topic, check_nothing_missing, plan_scan
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.pushed_filters import PushedFilters
from ruslo.pipeline.source.scan_task import read_task


def new_batch_reader(options: SourceOptions, schema: StructType) -> DataSourceReader:
    """Spark rejects a reader that accepts filters unless the session allows it, so an option decides."""
    return FilteringBatchReader(options, schema) if options.push_filters else BatchReader(options, schema)


class BatchReader(DataSourceReader):
    """Has plain values only: ``read`` runs on unpickled copies in other processes."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filters = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        with closing(DriverClient(self._options)) as client:
            return self._plan(client)

    def _plan(self, client: DriverClient) -> list[InputPartition]:
        partitions = client.partitions()
        check_nothing_missing(self._options.subscription, partitions)
        check_dead_letter_topic(client, self._options)
        starts = client.resolve(self._options.starting, partitions)
        ends = client.resolve(self._options.ending, partitions)
        _check_ends(ends, client.latest(partitions))
        starts, ends = self._filters.narrow(client, starts, ends)
        ids = topic_ids(partitions.values())
        return [*plan_scan(client, self._options, ids, starts, ends, self._filters.min_timestamp)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._schema)


class FilteringBatchReader(BatchReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow what is read. Spark applies all filters again, so none of them need be exact."""
        for pushed in filters:
            self._filters = self._filters.with_filter(pushed)
        return filters


def _check_ends(ends: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> None:
    beyond = [partition for partition, end in ends.items() if end > latest[partition]]
    if beyond:
        named = ", ".join(f"{p} to {ends[p]}, but it ends at {latest[p]}" for p in beyond)
        raise ConfigError(f"endingOffsets are beyond the end of the log: {named}; lower them")
