"""Files: a watched folder as a source, and a folder that Spark writes each batch to once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.base import OPTIONS, SCHEMA, PipelineContext, Problem, Sink, Source
from ruslo.pipeline.keys.key import Key
from ruslo.pipeline.keys.value_types import Choice, Flag, ListOf, Text, Whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FORMATS = Choice(("json", "csv", "parquet", "orc", "text"))
_SINK_LOG = "_spark_metadata"


@dataclass(frozen=True, kw_only=True)
class FilesSource(Source):
    TYPE: ClassVar[str] = "files"
    DOC: ClassVar[str] = (
        "The files of a folder; new files are read as they appear. Move complete files into the folder."
    )
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("path", Text(), "a folder, or a pattern such as `in/*.json`", required=True),
        Key("format", _FORMATS, "the format of the files", required=True),
        Key("watch", Flag(), "wait for new files; otherwise the folder is a table", default=True),
        Key("max_files_per_batch", Whole(1), "the maximum number of files per batch"),
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
                "format", "a watched folder needs a schema, because it may be empty", "Add 'schema: …'."
            )

    def read(self, spark: SparkSession, context: PipelineContext) -> DataFrame:
        if self.watch:
            stream = spark.readStream.format(self.format).options(**self.options)
            if self.max_files_per_batch is not None:
                stream = stream.option("maxFilesPerTrigger", self.max_files_per_batch)
            return stream.schema(self.columns() or "").load(context.path(self.path))
        reader = spark.read.format(self.format).options(**self.options)
        schema = self.columns()
        return (reader if schema is None else reader.schema(schema)).load(context.path(self.path))


@dataclass(frozen=True, kw_only=True)
class FilesSink(Sink):
    TYPE: ClassVar[str] = "files"
    DOC: ClassVar[str] = (
        "Files in a folder. Spark logs in `_spark_metadata` which file belongs to which batch, and "
        "readers that use this log, such as Spark, read each row once."
    )
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("path", Text(), "the folder", required=True),
        Key("format", _FORMATS, "the format of the files", default="parquet"),
        Key("partition_by", ListOf(Text()), "columns that become sub-folders", default=()),
        OPTIONS,
    )

    path: str
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def problems(self, mode: str) -> Iterator[Problem]:
        if mode != "append":
            yield Problem("mode", f"files do not support mode {mode}", "Remove 'mode': files are appended.")

    def stream(self, rows: DataFrame, mode: str, context: PipelineContext) -> DataStreamWriter:
        writer = rows.writeStream.format(self.format).options(**self.options)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        return writer.option("path", context.path(self.path))

    def save(self, rows: DataFrame, context: PipelineContext) -> None:
        writer = rows.write.format(self.format).options(**self.options).mode("append")
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.save(context.path(self.path))

    def old_batch_log(self, context: PipelineContext) -> str | None:
        folder = Path(self._address(context))
        if not (folder / _SINK_LOG).is_dir():
            return None
        return f"{folder} has a batch log ({_SINK_LOG}), so a new checkpoint would lose its first batches"

    def remove_batch_log(self, context: PipelineContext, *, delete: bool) -> None:
        path = self._address(context)
        if "://" in path:
            raise ConfigError(
                f"{path} is not on this machine: remove it, or its {_SINK_LOG}, with the tools of its storage"
            )
        folder = Path(path)
        target = folder if delete else folder / _SINK_LOG
        if target.is_dir():
            shutil.rmtree(target)

    def _address(self, context: PipelineContext) -> str:
        """A URL, or a plain path on this machine."""
        return context.path(self.path).removeprefix("file://")
