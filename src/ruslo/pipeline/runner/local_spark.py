"""A small Spark in this process, for running examples and analyzing queries."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.runner.spark_settings import shared_settings
from ruslo.pipeline.session import new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.ui.enabled": "false",
    # Examples have a few rows; more partitions would be empty tasks.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
}

_PIPELINE_SETTINGS = ("spark.jars", "spark.jars.packages", "spark.ui.showConsoleProgress", "spark.log.level")
"""The settings of pipelines that apply here: memory and executors are for production."""


@contextlib.contextmanager
def local_spark(name: str, pipelines: Sequence[Pipeline]) -> Iterator[SparkSession]:
    """The active session of this process, or a new one that is stopped afterwards."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    wanted = shared_settings(pipelines, {})
    settings = _SETTINGS | {key: value for key, value in wanted.items() if key in _PIPELINE_SETTINGS}
    with tempfile.TemporaryDirectory(prefix="ruslo-spark-", ignore_cleanup_errors=True) as folder:
        folders = {"spark.sql.warehouse.dir": folder, "spark.local.dir": folder}
        spark = new_session(name, "local[2]", settings | folders)
        try:
            yield spark
        finally:
            spark.stop()
