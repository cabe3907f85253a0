from __future__ import annotations

from pathlib import Path

from ruslo.pipeline.files.load import load_pipeline
from ruslo.pipeline.runner.spark_settings import settings_over_connect

PIPELINE = """\
source: {type: topic, topic: a, value: string}
sink: {type: topic, topic: b, value_column: value}
checkpoint: state
resources: {driver_memory: 1g, spark: {spark.sql.ansi.enabled: "false", spark.task.cpus: "2"}}
"""


def test_over_connect_only_session_settings_are_set(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE)
    given = {"spark.sql.shuffle.partitions": "3", "spark.executor.memory": "2g", "spark.log.level": "INFO"}
    settings = settings_over_connect([load_pipeline(path).valid()], given)
    assert settings.kept == {"spark.sql.shuffle.partitions": "3"}, "the pipeline's own are set on its session"
    assert settings.left_out == ["spark.driver.memory", "spark.executor.memory", "spark.task.cpus"]
