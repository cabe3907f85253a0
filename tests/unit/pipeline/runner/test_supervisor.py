from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.files.load import load_pipeline
from ruslo.pipeline.files.model import Output
from ruslo.pipeline.runner.pipeline_run import PipelineRun, RunOptions
from ruslo.pipeline.runner.query_run import Phase
from ruslo.pipeline.runner.run_folder import run_folder
from ruslo.pipeline.runner.stop_signals import StopSignals
from ruslo.pipeline.runner.supervisor import Supervisor
from ruslo.runs.folder import RunFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = """\
source: {type: topic, topic: a, value: string}
sink: {type: console}
checkpoint: state
"""


def test_a_run_has_a_status_while_its_queries_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ruslo pipeline stop` must not read the last state of the previous run."""
    path = tmp_path / "p.yaml"
    path.write_text(TEXT)
    pipeline = load_pipeline(path).valid()
    folder = RunFolder(run_folder(pipeline))
    folder.write_status({"state": "stopped"})
    run = PipelineRun(cast("SparkSession", object()), pipeline, RunOptions("127.0.0.1:1"))
    seen: list[dict[str, Any] | None] = []

    def start(output: Output, phase: Phase) -> None:
        seen.append(folder.report())
        raise ConfigError("seen enough")

    monkeypatch.setattr(run, "_start", start)
    assert not Supervisor([run], StopSignals()).run(lambda runs: None)
    (report,) = seen
    assert report is not None
    assert (report["state"], report["running"]) == ("waiting", True)
    last = folder.report()
    assert last is not None
    assert (last["state"], last["running"]) == ("failed", False)
