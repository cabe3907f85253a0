from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.files.load import load_pipeline
from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.runner.reset import plan_reset
from ruslo.pipeline.runner.run_folder import run_folder
from ruslo.runs.folder import RunFolder

TEXT = """\
source: {type: topic, topic: a, value: string}
sinks:
  files: {type: files, path: out, format: text, from: source}
  shown: {type: console, from: source}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text(TEXT + "checkpoint: state\n")
    for part in ("state/files/offsets", "state/shown", "state/.staging/shown", "out/_spark_metadata"):
        (tmp_path / part).mkdir(parents=True)
    (tmp_path / "out" / "part-0.txt").write_text("kept or not")
    return load_pipeline(path).valid()


def test_a_batch_log_needs_a_decision(pipeline: Pipeline) -> None:
    with pytest.raises(ConfigError, match=r"would lose its first batches: add --outputs delete"):
        plan_reset(pipeline, None, None)


@pytest.mark.parametrize(("outputs", "left"), [("keep", ["part-0.txt"]), ("delete", None)])
def test_outputs_are_kept_or_deleted(pipeline: Pipeline, outputs: str, left: list[str] | None) -> None:
    plan_reset(pipeline, "latest", outputs).execute()
    assert [entry.name for entry in (pipeline.folder / "state").iterdir()] == [".ruslo"]
    out = pipeline.folder / "out"
    assert ([entry.name for entry in out.iterdir()] if out.exists() else None) == left
    assert RunFolder(run_folder(pipeline)).start() == "latest"


def test_an_interrupted_reset_leaves_no_partial_checkpoint(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its id but without its batches a query would start at 0, and its sink would skip these batches."""
    state = pipeline.folder / "state"
    (state / "files" / "metadata").write_text('{"id": "of the query"}')

    def interrupted(folder: str | os.PathLike[str]) -> None:
        (Path(folder) / "offsets").rmdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            plan_reset(pipeline, None, "keep").execute()
    assert not (state / "files").exists()
    plan_reset(pipeline, None, "keep").execute()
    assert [entry.name for entry in state.iterdir()] == [".ruslo"]


def test_the_batch_log_is_found_behind_a_file_url(pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "addressed.yaml"
    path.write_text(TEXT.replace("path: out", f"path: 'file://{tmp_path}/out'") + "checkpoint: state\n")
    addressed = load_pipeline(path).valid()
    with pytest.raises(ConfigError, match="would lose its first batches"):
        plan_reset(addressed, None, None)
    plan_reset(addressed, None, "keep").execute()
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["part-0.txt"]


def test_invalid_resets(pipeline: Pipeline, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="invalid start 'yesterday'"):
        plan_reset(pipeline, "yesterday", "keep")
    with RunFolder(run_folder(pipeline)), pytest.raises(ConfigError, match="is running: stop it first"):
        plan_reset(pipeline, None, "keep")
    remote = tmp_path / "far.yaml"
    remote.write_text(TEXT + "checkpoint: s3a://bucket/p\n")
    with pytest.raises(ConfigError, match="is not on this machine"):
        plan_reset(load_pipeline(remote).valid(), None, "keep")


def test_a_share_group_decides_where_to_start(tmp_path: Path) -> None:
    path = tmp_path / "shared.yaml"
    path.write_text(
        "source: {type: topic, topic: a, value: string, share_group: workers}\n"
        "sink: {type: console}\ncheckpoint: state\n"
    )
    with pytest.raises(ConfigError, match="ruslo share reset-offsets workers"):
        plan_reset(load_pipeline(path).valid(), "latest", None)
