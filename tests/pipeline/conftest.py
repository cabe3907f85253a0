"""A real Spark session for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT_LIVED_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options for a Spark that runs for seconds, without optimized compilation: a session of twelve small queries
takes 16 s of CPU time instead of 35 s."""
SPARK_TEST_CONFIG = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.log.level": "ERROR",
    # Idle Python workers would otherwise outlive the tests.
    "spark.python.worker.idleTimeoutSeconds": "60",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two local threads, stopped at the end of the test session."""
    from ruslo.pipeline.session import new_session

    folders = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark-local")),
    }
    session = new_session("ruslo-tests", "local[2]", {**SPARK_TEST_CONFIG, **folders})
    yield session
    session.stop()
