"""Files: a folder that is watched, and a folder that Spark writes each batch to once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.base import Problem, Sink, Source, Surroundings
from ruslo.pipeline.connectors.common import OPTIONS, SCHEMA
from ruslo.pipeline.files.shapes import Choice, Flag, Key, ListOf, Text, Whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FORMATS = Choice(("json", "csv", "parquet", "orc", "text"))
_SINK_LOG = "_spark_metadata"


@dataclass(frozen=True, kw_only=True)
class FilesSource(Source):
    TYPE: ClassVar[str] = "files"
    DOC: ClassVar[str] = (
        "The files of a folder; new ones are read as they come. They must appear whole, by a rename."
    )
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("path", Text(), "a folder, or a pattern as `in/*.json`", required=True),
        Key("format", _FORMATS, "what is in the files", required=True),
        Key("watch", Flag(), "whether new files are waited for; else it is a table", default=True),
        Key("max_files_per_batch", Whole(1), "at most so many files in one batch"),
        SCHEMA,
        OPTIONS,
    )

    path: str
    format: str
    watch: bool = True
    max_files_per_batch: int | None = None
    schema: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def is_stream(self) -> bool:
        return self.watch

    def columns(self) -> str | None:
        return "value STRING" if self.format == "text" and self.schema is None else self.schema

    def problems(self) -> Iterator[Problem]:
        if self.watch and self.columns() is None:
            yield Problem(
                "format",
                "a watched folder must have its columns named: there may be no file yet",
                "Add 'schema: …'.",
            )

    def read(self, spark: SparkSession, around: Surroundings) -> DataFrame:
        if self.watch:
            stream = spark.readStream.format(self.format).options(**self.options)
            if self.max_files_per_batch is not None:
                stream = stream.option("maxFilesPerTrigger", self.max_files_per_batch)
            return stream.schema(self.columns() or "").load(around.path(self.path))
        reader = spark.read.format(self.format).options(**self.options)
        schema = self.columns()
        return (reader if schema is None else reader.schema(schema)).load(around.path(self.path))


@dataclass(frozen=True, kw_only=True)
class FilesSink(Sink):
    TYPE: ClassVar[str] = "files"
    DOC: ClassVar[str] = (
        "Files in a folder. Spark notes in `_spark_metadata` which file belongs to which batch, and "
        "readers that know the note (Spark does) see each row once."
    )
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("path", Text(), "the folder", required=True),
        Key("format", _FORMATS, "how to write", default="parquet"),
        Key("partition_by", ListOf(Text()), "columns that become sub-folders", default=()),
        OPTIONS,
    )

    path: str
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def problems(self, mode: str) -> Iterator[Problem]:
        if mode != "append":
            yield Problem("mode", f"files cannot be written in mode {mode}", "Remove it: files are appended.")

    def stream(self, rows: DataFrame, mode: str, around: Surroundings) -> DataStreamWriter:
        writer = rows.writeStream.format(self.format).options(**self.options)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        return writer.option("path", around.path(self.path))

    def save(self, rows: DataFrame, around: Surroundings) -> None:
        writer = rows.write.format(self.format).options(**self.options).mode("append")
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.save(around.path(self.path))

    def left_from_before(self, around: Surroundings) -> str | None:
        folder = Path(self._address(around))
        if not (folder / _SINK_LOG).is_dir():
            return None
        return (
            f"{folder} has a log of batches ({_SINK_LOG}): a new checkpoint's first batches would be skipped"
        )

    def forget(self, around: Surroundings, *, delete: bool) -> None:
        path = self._address(around)
        if "://" in path:
            raise ConfigError(
                f"{path} is not on this machine: remove it, or its {_SINK_LOG}, with its own tools"
            )
        folder = Path(path)
        target = folder if delete else folder / _SINK_LOG
        if target.is_dir():
            shutil.rmtree(target)

    def _address(self, around: Surroundings) -> str:
        """A plain path where it is on this machine."""
        return around.path(self.path).removeprefix("file://")
