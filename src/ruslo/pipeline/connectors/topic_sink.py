"""Writes rows to a topic, exactly once by default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.base import BOOTSTRAP, PipelineContext, Problem, Sink
from ruslo.pipeline.keys.key import Key
from ruslo.pipeline.keys.value_types import Choice, ListOf, Options, Text, Topic
from ruslo.pipeline.suggestions import nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, kw_only=True)
class TopicSink(Sink):
    TYPE: ClassVar[str] = "topic"
    DOC: ClassVar[str] = "Records of a topic: the columns as a JSON object, or one column unchanged."
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("topic", Topic(), "the topic to write to"),
        Key("topic_column", Text(), "the column with the topic of each row, instead of `topic`"),
        Key("key", Text(), "the column that becomes the key"),
        Key(
            "value",
            ListOf(Text()),
            "the columns that become the JSON value; by default all that do not start with `_`",
        ),
        Key("value_column", Text(), "the column with the value as text or bytes; null is a tombstone"),
        Key("headers", Text(), "the column with headers"),
        Key("timestamp", Text(), "the column that becomes the record's timestamp"),
        Key("partition", Text(), "the column with the partition"),
        Key(
            "delivery",
            Choice(("exactly_once", "at_least_once")),
            "the delivery guarantee",
            default="exactly_once",
        ),
        BOOTSTRAP,
        Key(
            "options",
            Options(),
            "more options of the Spark format `ruslo`, e.g. `kafka.compression.type`",
            default={},
        ),
    )

    topic: str | None = None
    topic_column: str | None = None
    key: str | None = None
    value: tuple[str, ...] | None = None
    value_column: str | None = None
    headers: str | None = None
    timestamp: str | None = None
    partition: str | None = None
    delivery: str = "exactly_once"
    bootstrap: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def problems(self, mode: str) -> Iterator[Problem]:
        if (self.topic is None) == (self.topic_column is None):
            yield Problem(
                "topic",
                "the sink needs either 'topic' or 'topic_column'",
                "Set one of 'topic: name' and 'topic_column: …'.",
            )
        if self.value is not None and self.value_column is not None:
            yield Problem("value", "'value' and 'value_column' exclude each other", "Remove one of them.")
        if mode == "complete":
            yield Problem(
                "mode",
                "a topic does not support mode complete",
                "Use 'mode: update' with a key and a compacted topic, or 'mode: append' with a watermark.",
            )

    def topics(self) -> tuple[str, ...]:
        return () if self.topic is None else (self.topic,)

    @property
    def cluster(self) -> str | None:
        return self.bootstrap

    def transaction_cluster(self, bootstrap: str) -> str | None:
        return self.bootstrap or bootstrap if self.delivery == "exactly_once" else None

    def uses_foreach_batch(self, mode: str) -> bool:
        return mode != "append"

    def stream(self, rows: DataFrame, mode: str, context: PipelineContext) -> DataStreamWriter:
        if self.uses_foreach_batch(mode):
            # Spark supports only append mode for Python sinks. foreachBatch is exactly once too: the sink's
            # name and the query's batch id detect repetitions.
            return rows.writeStream.foreachBatch(lambda batch, batch_id: self.save(batch, context))
        return self.records(rows).writeStream.format("ruslo").options(**self._options(context))

    def save(self, rows: DataFrame, context: PipelineContext) -> None:
        self.records(rows).write.format("ruslo").options(**self._options(context)).mode("append").save()

    def _options(self, context: PipelineContext) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.bootstrap or context.bootstrap, "delivery": self.delivery}
        if self.topic is not None:
            options["topic"] = self.topic
        if context.staging is not None:
            options["stagingPath"] = context.staging
        if context.sink is not None:
            options["sinkName"] = context.sink
        if context.transaction_cluster is not None and context.dead_letters is not None:
            options["deadLetterTopic"] = context.dead_letters
        return options | self.options

    def records(self, rows: DataFrame) -> DataFrame:
        """Select the columns of a record from the columns of a view."""
        from pyspark.sql import functions as F

        columns: dict[str, Column] = {}
        if self.topic_column is not None:
            columns["topic"] = _column(rows, "topic_column", self.topic_column)
        if self.key is not None:
            key = _column(rows, "key", self.key)
            is_bytes = rows.schema[self.key].dataType.typeName() == "binary"
            columns["key"] = key if is_bytes else key.cast("string")
        if self.value_column is not None:
            columns["value"] = _column(rows, "value_column", self.value_column)
        else:
            names = self.value or [name for name in rows.columns if not name.startswith("_")]
            for name in names:
                _column(rows, "value", name)
            fields = F.struct(*(F.col(f"`{name}`") for name in names))
            columns["value"] = F.to_json(fields, {"ignoreNullFields": "false"})
        for name in ("headers", "timestamp", "partition"):
            column = getattr(self, name)
            if column is not None:
                columns[name] = _column(rows, name, column)
        return rows.select(*(column.alias(name) for name, column in columns.items()))


def _column(rows: DataFrame, key: str, name: str) -> Column:
    from pyspark.sql import functions as F

    if name not in rows.columns:
        raise ConfigError(
            f"the sink's '{key}' names the unknown column {name!r}. {nearest(name, rows.columns)}"
        )
    return F.col(f"`{name}`")
