"""One real Spark session for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRIEF_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a Spark that lives for seconds and would not get back what Java's best compiler costs: a session of
twelve small queries takes 16 s of processor time this way, 35 s otherwise."""
SPARK_TEST_CONFIG = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": BRIEF_JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.log.level": "ERROR",
    # Idle Python workers would outlive the tests that used them.
    "spark.python.worker.idleTimeoutSeconds": "60",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two threads of this machine, stopped when the tests of this process are over."""
    from ruslo.pipeline.session import new_session

    places = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark-local")),
    }
    session = new_session("ruslo-tests", "local[2]", {**SPARK_TEST_CONFIG, **places})
    yield session
    session.stop()
