"""``format("ruslo-table")``: reads a whole topic, up to its end at the time when a task runs.

Spark plans a Python batch reader once and keeps the plan for the lifetime of the query, so
``format("ruslo")`` would return the rows of the first micro-batch to every later one. Here the plan only
distributes partition numbers; each task finds out which partitions exist and where they end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

_TOPIC = "subscribe"


class TableDataSource(DataSource):
    """The options are those of ``format("ruslo")`` with one topic in ``subscribe``."""

    @classmethod
    def name(cls) -> str:
        return "ruslo-table"

    def schema(self) -> StructType | str:
        from ruslo.pipeline.datasource import RusloDataSource

        return RusloDataSource(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(dict(self.options), schema)


@dataclass
class TablePartition(InputPartition):
    """Every ``planned``-th partition from ``number`` on, so partitions added later are read too."""

    number: int
    planned: int


class TableReader(DataSourceReader):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        planned = self._partition_count()
        return [TablePartition(number, planned) for number in range(planned)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ruslo.pipeline.source.options import SourceOptions
        from ruslo.pipeline.source.reader import new_batch_reader

        assert isinstance(partition, TablePartition), "Spark passes what was planned"
        options = {name: value for name, value in self._options.items() if name != _TOPIC}
        share = range(partition.number, self._partition_count(), partition.planned)
        if not share:
            return
        options["assign"] = json.dumps({self._options[_TOPIC]: [*share]})
        now = new_batch_reader(SourceOptions.parse(options, streaming=False), self._schema)
        for part in now.partitions():
            yield from now.read(part)

    def _partition_count(self) -> int:
        from ruslo.pipeline.partition_counts import partition_count
        from ruslo.pipeline.source.options import SourceOptions

        client = SourceOptions.parse(self._options, streaming=False).client
        return partition_count(client, self._options[_TOPIC])
