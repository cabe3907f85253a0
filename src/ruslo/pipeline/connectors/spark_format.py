"""Any other format that Spark can read or write, by its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ruslo.pipeline.connectors.base import OPTIONS, SCHEMA, PipelineContext, Sink, Source
from ruslo.pipeline.keys.key import Key
from ruslo.pipeline.keys.value_types import Flag, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, kw_only=True)
class SparkSource(Source):
    TYPE: ClassVar[str] = "spark"
    DOC: ClassVar[str] = "Any Spark format: built in, from a package, or a Python data source."
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("format", Text(), "the name of the format, e.g. `rate` or `delta`", required=True),
        Key("stream", Flag(), "read a stream; otherwise the source is a table", default=False),
        Key("path", Text(), "for formats with a path; relative to the pipeline file"),
        SCHEMA,
        OPTIONS,
    )

    format: str
    stream: bool = False
    path: str | None = None
    schema: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def is_stream(self) -> bool:
        return self.stream

    def columns(self) -> str | None:
        return self.schema

    def read(self, spark: SparkSession, context: PipelineContext) -> DataFrame:
        path = None if self.path is None else context.path(self.path)
        reader = (spark.readStream if self.stream else spark.read).format(self.format).options(**self.options)
        return reader.load(path)


@dataclass(frozen=True, kw_only=True)
class SparkSink(Sink):
    TYPE: ClassVar[str] = "spark"
    DOC: ClassVar[str] = "Any Spark format; its delivery guarantee is that of the format."
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("format", Text(), "the name of the format, e.g. `delta` or `memory`", required=True),
        Key("path", Text(), "for formats with a path; relative to the pipeline file"),
        OPTIONS,
    )

    format: str
    path: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def stream(self, rows: DataFrame, mode: str, context: PipelineContext) -> DataStreamWriter:
        writer = rows.writeStream.format(self.format).options(**self.options)
        return writer if self.path is None else writer.option("path", context.path(self.path))

    def save(self, rows: DataFrame, context: PipelineContext) -> None:
        path = None if self.path is None else context.path(self.path)
        rows.write.format(self.format).options(**self.options).mode("append").save(path)


@dataclass(frozen=True, kw_only=True)
class ConsoleSink(Sink):
    TYPE: ClassVar[str] = "console"
    DOC: ClassVar[str] = "Prints the rows of each batch as a table to stdout."
    KEYS: ClassVar[tuple[Key, ...]] = (Key("truncate", Flag(), "truncate long values", default=False),)

    truncate: bool = False

    def stream(self, rows: DataFrame, mode: str, context: PipelineContext) -> DataStreamWriter:
        return rows.writeStream.format("console").option("truncate", str(self.truncate).lower())

    def save(self, rows: DataFrame, context: PipelineContext) -> None:
        rows.show(truncate=self.truncate)
