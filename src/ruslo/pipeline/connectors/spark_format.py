"""Whatever else Spark can read and write, by the name of its format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ruslo.pipeline.connectors.base import Sink, Source, Surroundings
from ruslo.pipeline.connectors.common import OPTIONS, SCHEMA
from ruslo.pipeline.files.shapes import Flag, Key, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, kw_only=True)
class SparkSource(Source):
    TYPE: ClassVar[str] = "spark"
    DOC: ClassVar[str] = "Any format that Spark has: built in, from a package, or a Python data source."
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("format", Text(), "its name, e.g. `rate` or `delta`", required=True),
        Key("stream", Flag(), "whether it is read as a stream; else it is a table", default=False),
        Key("path", Text(), "for formats that have one; relative to the pipeline file"),
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

    def read(self, spark: SparkSession, around: Surroundings) -> DataFrame:
        path = None if self.path is None else around.path(self.path)
        reader = (spark.readStream if self.stream else spark.read).format(self.format).options(**self.options)
        return reader.load(path)


@dataclass(frozen=True, kw_only=True)
class SparkSink(Sink):
    TYPE: ClassVar[str] = "spark"
    DOC: ClassVar[str] = "Any format that Spark has; what it promises after a failure is the format's own."
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("format", Text(), "its name, e.g. `delta` or `memory`", required=True),
        Key("path", Text(), "for formats that have one; relative to the pipeline file"),
        OPTIONS,
    )

    format: str
    path: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def stream(self, rows: DataFrame, mode: str, around: Surroundings) -> DataStreamWriter:
        writer = rows.writeStream.format(self.format).options(**self.options)
        return writer if self.path is None else writer.option("path", around.path(self.path))

    def save(self, rows: DataFrame, around: Surroundings) -> None:
        path = None if self.path is None else around.path(self.path)
        rows.write.format(self.format).options(**self.options).mode("append").save(path)


@dataclass(frozen=True, kw_only=True)
class ConsoleSink(Sink):
    TYPE: ClassVar[str] = "console"
    DOC: ClassVar[str] = "The rows of each batch as a table on stdout, to look at."
    KEYS: ClassVar[tuple[Key, ...]] = (Key("truncate", Flag(), "whether long values are cut", default=False),)

    truncate: bool = False

    def stream(self, rows: DataFrame, mode: str, around: Surroundings) -> DataStreamWriter:
        return rows.writeStream.format("console").option("truncate", str(self.truncate).lower())

    def save(self, rows: DataFrame, around: Surroundings) -> None:
        rows.show(truncate=self.truncate)
