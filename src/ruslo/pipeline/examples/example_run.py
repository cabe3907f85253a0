"""Runs the examples of a pipeline, as one batch or as a stream of batches."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ruslo.pipeline.examples.comparison import Comparison, as_json, compare, typed_rows
from ruslo.pipeline.files.model import Example, Input, Pipeline
from ruslo.pipeline.runner.pipeline_session import new_pipeline_session
from ruslo.pipeline.runner.views import ViewFailed, build_views, spark_reason, view_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ExampleResult:
    example: Example
    comparisons: Sequence[Comparison]
    error: str | None = None

    @property
    def passed(self) -> bool:
        return self.error is None and all(comparison.is_equal for comparison in self.comparisons)

    def as_json(self) -> dict[str, object]:
        return {
            "example": self.example.name,
            "line": self.example.location.line,
            "passed": self.passed,
            "error": self.error,
            "views": [comparison.as_json() for comparison in self.comparisons],
        }


def run_example(spark: SparkSession, pipeline: Pipeline, example: Example) -> ExampleResult:
    from pyspark.errors import PySparkException

    session = new_pipeline_session(spark, pipeline)
    try:
        compared = (
            _as_stream(session, pipeline, example)
            if example.is_stream
            else _as_batch(session, pipeline, example)
        )
    except (ViewFailed, PySparkException) as error:
        return ExampleResult(example, (), spark_reason(error))
    return ExampleResult(example, compared)


def check_with_spark(spark: SparkSession, pipeline: Pipeline) -> ViewFailed | None:
    """Let Spark analyze all views over empty sources; returns the view that it rejects, or None."""
    session = new_pipeline_session(spark, pipeline)
    try:
        build_views(session, pipeline, lambda entry: _table(session, entry, ()))
    except ViewFailed as error:
        return error
    return None


def _as_batch(spark: SparkSession, pipeline: Pipeline, example: Example) -> list[Comparison]:
    given = example.batches[0]
    views = build_views(spark, pipeline, lambda entry: _table(spark, entry, given.get(entry.name, ())))
    return [
        compare(spark, name, view_of(views, name), rows, ordered=example.ordered)
        for name, rows in example.expect.items()
    ]


def _table(spark: SparkSession, entry: Input, rows: Sequence[object]) -> DataFrame:
    schema = _schema(entry)
    if not rows:
        return spark.createDataFrame([], schema)
    return typed_rows(spark, schema, rows)  # type: ignore[arg-type]  # lint has checked that they are mappings


def _schema(entry: Input) -> str:
    schema = entry.source.columns()
    if schema is None:
        raise ViewFailed(entry.location, f"source {entry.name!r}", "its columns are unknown: add 'schema: …'")
    return schema


def _as_stream(spark: SparkSession, pipeline: Pipeline, example: Example) -> list[Comparison]:
    """Write each batch to a file; Spark reads one file per micro-batch."""
    with tempfile.TemporaryDirectory(prefix="ruslo-example-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        for entry in pipeline.inputs:
            if entry.source.is_stream:
                _write_batches(root / "given" / entry.name, example, entry.name)
        came = [_stream_view(spark, pipeline, example, root, name) for name in example.expect]
        return [
            compare(spark, name, rows, example.expect[name], ordered=example.ordered)
            for name, rows in zip(example.expect, came, strict=True)
        ]


def _write_batches(folder: Path, example: Example, source: str) -> None:
    import os

    folder.mkdir(parents=True)
    for number, batch in enumerate(example.batches):
        path = folder / f"{number:06}.json"
        path.write_text("".join(as_json(row) + "\n" for row in batch.get(source, ())))
        # Spark reads files in the order of their modification times.
        os.utime(path, (number + 1, number + 1))


def _stream_view(
    spark: SparkSession, pipeline: Pipeline, example: Example, root: Path, name: str
) -> DataFrame:
    def read(entry: Input) -> DataFrame:
        if not entry.source.is_stream:
            rows = [row for batch in example.batches for row in batch.get(entry.name, ())]
            return _table(spark, entry, rows)
        return (
            spark.readStream.schema(_schema(entry))
            .option("mode", "FAILFAST")
            .option("maxFilesPerTrigger", 1)
            .json(str(root / "given" / entry.name))
        )

    views = build_views(spark, pipeline, read)
    mode = next((output.mode for output in pipeline.outputs if output.view.lower() == name.lower()), "append")
    table = f"example_{uuid.uuid4().hex}"
    query = (
        view_of(views, name)
        .writeStream.format("memory")
        .queryName(table)
        .outputMode(mode)
        .option("checkpointLocation", str(root / "checkpoint" / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.table(table)
