"""Builds the views of a pipeline as DataFrames: sources first, then each step from the views it reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ruslo.model.errors import ConfigError
from ruslo.pipeline.durations import spark_interval
from ruslo.pipeline.files.model import Input, Pipeline, Step, Watermark
from ruslo.pipeline.files.python_ref import load_function, shape_of
from ruslo.pipeline.files.steps import SPARK_PARAMETER
from ruslo.pipeline.keys.finding import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STACK_LINE = re.compile(r"\s+(at |\.\.\. \d+ more)")


class ViewFailed(ConfigError):
    """Spark rejected a source or a step. A restart cannot help."""

    def __init__(self, location: Location, what: str, reason: str) -> None:
        super().__init__(f"{location}: {what}: {reason}")
        self.location = location
        self.what = what
        self.reason = reason


def build_views(
    spark: SparkSession, pipeline: Pipeline, read: Callable[[Input], DataFrame]
) -> dict[str, DataFrame]:
    """Register the views in ``spark``, which must be the pipeline's own session."""
    views: dict[str, DataFrame] = {}
    for entry in pipeline.inputs:
        views[entry.name] = _guarded(entry.location, f"source {entry.name!r}", partial(read, entry))
        _register(views, entry.name, entry.watermark, entry.location)
    for step in pipeline.steps:
        views[step.name] = _guarded(
            step.location, f"step {step.name!r}", partial(_step, spark, pipeline, step, views)
        )
        _register(views, step.name, step.watermark, step.location)
    return views


def view_of(views: dict[str, DataFrame], name: str) -> DataFrame:
    """View names are case-insensitive, as in SQL."""
    return {known.lower(): view for known, view in views.items()}[name.lower()]


def _register(
    views: dict[str, DataFrame], name: str, watermark: Watermark | None, location: Location
) -> None:
    view = views[name]
    if watermark is not None:
        delay = spark_interval(watermark.delay_ms)
        view = _guarded(
            location, f"watermark of {name!r}", lambda: view.withWatermark(watermark.column, delay)
        )
        views[name] = view
    view.createOrReplaceTempView(name)


def _step(spark: SparkSession, pipeline: Pipeline, step: Step, views: dict[str, DataFrame]) -> DataFrame:
    from pyspark.sql import DataFrame

    if step.sql is not None:
        return spark.sql(step.sql.rstrip().rstrip(";"))
    assert step.python is not None, "a step has sql or python"
    function = step.python if callable(step.python) else load_function(step.python, pipeline.folder)
    by_name = {name.lower(): view for name, view in views.items()}
    arguments: dict[str, Any] = dict(step.arguments)
    parameters = [name for name in shape_of(function).parameters if name not in arguments]
    if SPARK_PARAMETER in parameters:
        parameters.remove(SPARK_PARAMETER)
        arguments[SPARK_PARAMETER] = spark
    arguments |= {name: by_name[view.lower()] for name, view in zip(parameters, step.reads, strict=False)}
    result = function(**arguments)
    if not isinstance(result, DataFrame):
        raise ConfigError(f"the function returned {type(result).__name__}: return a DataFrame")
    return result


def _guarded(location: Location, what: str, make: Callable[[], DataFrame]) -> DataFrame:
    from pyspark.errors import PySparkException

    try:
        view = make()
        assert view.schema is not None, "reading the schema makes Spark analyze the view"
    except ViewFailed:
        raise
    except ConfigError as error:
        raise ViewFailed(location, what, str(error)) from error
    except PySparkException as error:
        raise ViewFailed(location, what, spark_reason(error)) from error
    return view


def spark_reason(error: BaseException) -> str:
    """Spark's error message without plans and stack traces."""
    text = str(error)
    for rest in ("\nJVM stacktrace", "\n=== Streaming Query ===", ";\n"):
        text = text.partition(rest)[0]
    return "\n".join(line for line in text.splitlines() if line.strip() and not _STACK_LINE.match(line))
