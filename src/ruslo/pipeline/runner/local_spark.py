"""A small Spark in this process, for what needs no cluster: tests of examples and checks of queries."""

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
    # Examples have a few rows; what a cluster is given would only be tasks without work.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
}

_TAKEN = ("spark.jars", "spark.jars.packages", "spark.ui.showConsoleProgress", "spark.log.level")
"""Of what the pipelines ask for: memory and executors are for where they really run."""


@contextlib.contextmanager
def local_spark(name: str, pipelines: Sequence[Pipeline]) -> Iterator[SparkSession]:
    """The session of this process when it has one; else one that is stopped afterwards."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    wanted = shared_settings(pipelines, {})
    taken = {key: value for key, value in wanted.items() if key in _TAKEN}
    with tempfile.TemporaryDirectory(prefix="ruslo-spark-", ignore_cleanup_errors=True) as folder:
        places = {"spark.sql.warehouse.dir": folder, "spark.local.dir": folder}
        spark = new_session(name, "local[2]", {**_SETTINGS, **taken, **places})
        try:
            yield spark
        finally:
            spark.stop()
