"""Rows into a topic, exactly once unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.base import Problem, Sink, Surroundings
from ruslo.pipeline.connectors.common import BOOTSTRAP
from ruslo.pipeline.files.finding import nearest
from ruslo.pipeline.files.shapes import Choice, Key, ListOf, Options, Text, Topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, kw_only=True)
class TopicSink(Sink):
    TYPE: ClassVar[str] = "topic"
    DOC: ClassVar[str] = "Records of a topic: all columns as one JSON object, or one column as it is."
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("topic", Topic(), "where to write"),
        Key("topic_column", Text(), "a column that says where each row goes, instead of `topic`"),
        Key("key", Text(), "the column that becomes the key"),
        Key(
            "value",
            ListOf(Text()),
            "the columns that become the JSON value; all that do not begin with `_` if not given",
        ),
        Key(
            "value_column",
            Text(),
            "a column that is the value as it is, text or bytes; null makes a tombstone",
        ),
        Key("headers", Text(), "a column of headers"),
        Key("timestamp", Text(), "the column that becomes the record's time"),
        Key("partition", Text(), "a column that says which partition"),
        Key(
            "delivery",
            Choice(("exactly_once", "at_least_once")),
            "what a failure may do",
            default="exactly_once",
        ),
        BOOTSTRAP,
        Key(
            "options",
            Options(),
            "further options of the Spark format `ruslo`, e.g. `kafka.compression.type`",
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
                "it must be said where to write",
                "Give 'topic: name' or 'topic_column: …', one of them.",
            )
        if self.value is not None and self.value_column is not None:
            yield Problem(
                "value", "there are two ways to make the value", "Keep one of 'value' and 'value_column'."
            )
        if mode == "complete":
            yield Problem(
                "mode",
                "a topic cannot take the complete result again with every batch",
                "Use 'mode: update' with a key and a compacted topic, or 'mode: append' with a watermark.",
            )

    def topics(self) -> tuple[str, ...]:
        return () if self.topic is None else (self.topic,)

    @property
    def cluster(self) -> str | None:
        return self.bootstrap

    def transactions_at(self, bootstrap: str) -> str | None:
        return self.bootstrap or bootstrap if self.delivery == "exactly_once" else None

    def calls_function(self, mode: str) -> bool:
        return mode != "append"

    def stream(self, rows: DataFrame, mode: str, around: Surroundings) -> DataStreamWriter:
        if self.calls_function(mode):
            # Spark lets sinks that are written in Python only append. A batch written by foreachBatch is
            # exactly once too: the sink's name and the query's batch tell a repetition.
            return rows.writeStream.foreachBatch(lambda batch, batch_id: self.save(batch, around))
        return self.records(rows).writeStream.format("ruslo").options(**self._options(around))

    def save(self, rows: DataFrame, around: Surroundings) -> None:
        self.records(rows).write.format("ruslo").options(**self._options(around)).mode("append").save()

    def _options(self, around: Surroundings) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.bootstrap or around.bootstrap, "delivery": self.delivery}
        if self.topic is not None:
            options["topic"] = self.topic
        if around.staging is not None:
            options["stagingPath"] = around.staging
        if around.sink is not None:
            options["sinkName"] = around.sink
        if around.transactions_at is not None and around.dead_letters is not None:
            options["deadLetterTopic"] = around.dead_letters
        return options | self.options

    def records(self, rows: DataFrame) -> DataFrame:
        """The columns of a record from the columns of a view."""
        from pyspark.sql import functions as F

        columns: dict[str, Column] = {}
        if self.topic_column is not None:
            columns["topic"] = _column(rows, "topic_column", self.topic_column)
        if self.key is not None:
            key = _column(rows, "key", self.key)
            columns["key"] = key if _is_bytes(rows, self.key) else key.cast("string")
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
            f"the sink's '{key}' names a column {name!r} that is not there. {nearest(name, rows.columns)}"
        )
    return F.col(f"`{name}`")


def _is_bytes(rows: DataFrame, name: str) -> bool:
    return rows.schema[name].dataType.typeName() == "binary"
