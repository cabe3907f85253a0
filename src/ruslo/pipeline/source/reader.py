"""``spark.read.format("ruslo")``: a bounded range of topics, fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.driver_plan import check_dead_letter_topic, check_nothing_missing, plan_scan
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.pushed_filters import PushedFilters
from ruslo.pipeline.source.scan_task import read_task
from ruslo.pipeline.source.survey import Survey, topic_ids


def new_batch_reader(options: SourceOptions, schema: StructType) -> DataSourceReader:
    """Spark refuses a reader that takes filters unless the session allows it, so that an option decides."""
    return FilteringBatchReader(options, schema) if options.push_filters else BatchReader(options, schema)


class BatchReader(DataSourceReader):
    """Its ``read`` runs elsewhere on an unpickled copy, so that it holds plain values only."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filters = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        with closing(Survey(self._options)) as survey:
            return self._plan(survey)

    def _plan(self, survey: Survey) -> list[InputPartition]:
        partitions = survey.partitions()
        check_nothing_missing(self._options.subscription, partitions)
        check_dead_letter_topic(survey, self._options)
        starts = survey.resolve(self._options.starting, partitions)
        ends = survey.resolve(self._options.ending, partitions)
        _check_ends(ends, survey.latest(partitions))
        starts, ends = self._filters.narrow(survey, starts, ends)
        ids = topic_ids(partitions.values())
        tasks = plan_scan(survey, self._options, ids, starts, ends)
        for task in tasks:
            task.min_timestamp = self._filters.min_timestamp
        return [*tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._schema)


class FilteringBatchReader(BatchReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Filters narrow what is read; Spark applies all of them again, so that none need be exact."""
        for pushed in filters:
            self._filters = self._filters.with_filter(pushed)
        return filters


def _check_ends(ends: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> None:
    beyond = [partition for partition, end in ends.items() if end > latest[partition]]
    if beyond:
        named = ", ".join(f"{p} to {ends[p]}, its end is {latest[p]}" for p in beyond)
        raise ConfigError(f"endingOffsets reach beyond what can be read: {named}")
