"""The whole demo: broker, events, pipelines on Spark, and the counts at the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ruslo.cli.demo.spark import PIPELINES
from ruslo.pipeline.examples.example_run import run_example
from ruslo.pipeline.files.load import load_pipeline
from tests.pipeline.conftest import SHORT_LIVED_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEMO = [sys.executable, "-m", "ruslo.cli", "demo", "-o", "json"]


@pytest.fixture
def pipeline_folder() -> Iterator[Path]:
    with resources.as_file(resources.files("ruslo.cli.demo.pipelines")) as folder:
        yield folder


@pytest.mark.parametrize("name", PIPELINES)
def test_the_examples_of_the_pipelines_pass(spark: SparkSession, pipeline_folder: Path, name: str) -> None:
    pipeline = load_pipeline(pipeline_folder / f"{name}.yaml").valid()
    assert pipeline.examples
    for example in pipeline.examples:
        result = run_example(spark, pipeline, example)
        assert result.passed, result


@pytest.mark.timeout(1200)
def test_every_order_and_payment_has_one_receipt_after_ctrl_c() -> None:
    demo = subprocess.Popen(
        [*DEMO, "--rate", "500"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JDK_JAVA_OPTIONS": SHORT_LIVED_JAVA},
    )
    assert demo.stderr is not None
    printed = ""
    for line in demo.stderr:
        printed += line
        acked = re.search(r"acked (\d+)", line)
        if acked is not None and int(acked[1]) > 1000:
            break
    demo.send_signal(signal.SIGINT)
    output, rest = demo.communicate(timeout=400)
    assert demo.returncode == 0, printed + rest
    summary = json.loads(output)
    assert summary["acked"] == summary["read"] == summary["sent"] > 1000
    spark = summary["spark"]
    assert spark["orders"] == spark["payments"] == spark["receipts_due"] == spark["receipts"] > 100
    assert (spark["missing"], spark["repeated"], spark["unknown"]) == (0, 0, 0)
    assert spark["exactly_once"]
    assert "Spark starting (takes 10 to 60 seconds)" in printed


def test_without_java_the_demo_continues_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from ruslo.cli.main import cli
    from ruslo.pipeline import java

    monkeypatch.setattr(java, "_JVM_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = CliRunner().invoke(cli, ["demo", "--seconds", "1", "-o", "json"])
    assert result.exit_code == 0, result.output
    assert "The demo runs without Spark. Spark needs Java 17 or 21, but none was found" in result.stderr
    assert json.loads(result.stdout)["spark"] is None
