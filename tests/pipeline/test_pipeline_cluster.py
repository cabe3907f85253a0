"""A pipeline on a real Spark cluster, with a packed environment, during which a worker is killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.testing import EmbeddedBroker
from tests.pipeline.conftest import SHORT_LIVED_JAVA
from tests.pipeline.pipelines import SHORT_LIVED_SPARK, RunningPipeline, create, received, send
from tests.pipeline.standalone_cluster import standalone_cluster
from tests.support.checks.cli_checks import Cli

RECORDS = 1_200
PIPELINE = """\
source: {name: numbers, type: topic, topic: numbers, schema: n INT, max_records_per_batch: 200}
steps:
  - name: marked
    python: where_steps:where
sink: {type: topic, topic: marked, key: n}
trigger: 0s
checkpoint: state
on_error: {delay: 500ms}
resources:
  executor_memory: 512m
  executor_cores: 1
"""
STEPS = '''\
"""Returns the path of Ruslo on the executor."""


def where(numbers):
    def origin(batches):
        import ruslo.records.batch

        for batch in batches:
            yield batch.assign(origin=ruslo.records.batch.__file__)[["n", "origin"]]

    return numbers.mapInPandas(origin, "n INT, origin STRING")
'''


@pytest.mark.timeout(1500)
def test_every_record_arrives_once_after_a_worker_was_killed(tmp_path: Path) -> None:
    archive = tmp_path / "environment.tar.gz"
    packed = Cli("").json("pipeline", "pack", str(archive))
    assert {"ruslo", "pyarrow", "numba", "pandas"} <= packed["packages"].keys()
    assert "pyspark" not in packed["packages"]
    (tmp_path / "where_steps.py").write_text(STEPS)
    path = tmp_path / "numbers.yaml"
    path.write_text(PIPELINE)
    with EmbeddedBroker() as broker, standalone_cluster(tmp_path) as cluster:
        create(broker.bootstrap, "numbers", "marked")
        send(broker.bootstrap, "numbers", [{"n": n} for n in range(RECORDS)])
        first, _ = cluster.start(workers=2)
        settings = (
            f"spark.executor.extraJavaOptions={SHORT_LIVED_JAVA}",
            "spark.driver.host=127.0.0.1",
            "spark.driver.bindAddress=127.0.0.1",
        )
        running = RunningPipeline(
            tmp_path / "run.log",
            str(path),
            *("--master", cluster.master, "--env", str(archive)),
            *SHORT_LIVED_SPARK,
            *(word for setting in settings for word in ("--conf", setting)),
            environment={**os.environ, "RUSLO_BOOTSTRAP": broker.bootstrap},
        )
        try:
            running.wait_for(lambda: len(received(broker.bootstrap, "marked")) >= 200, "a first batch", 600)
            cluster.kill(first)
            running.wait_for(lambda: len(received(broker.bootstrap, "marked")) >= RECORDS, "all batches", 600)
        finally:
            code, _ = running.end()
        rows = received(broker.bootstrap, "marked")
    assert code == 0, running.log()
    assert sorted(row["n"] for row in rows) == list(range(RECORDS))
    assert all("/environment/lib/ruslo/" in row["origin"] for row in rows), "Ruslo is loaded from the archive"
