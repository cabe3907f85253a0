from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.pipeline.files.load import load_pipeline
from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.runner.run_folder import local_checkpoint, run_folder


def pipeline(tmp_path: Path, checkpoint: str) -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text(
        "source: {type: topic, topic: a, value: string}\nsink: {type: console}\n"
        f"checkpoint: {checkpoint}\n"
    )
    return load_pipeline(path).valid()


def test_the_run_folder_is_in_a_local_checkpoint_or_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_folder(pipeline(tmp_path, "state/p")) == tmp_path / "state" / "p" / ".ruslo"
    assert local_checkpoint(pipeline(tmp_path, "file:///data/p")) == Path("/data/p")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    remote = pipeline(tmp_path, "hdfs://name/p")
    assert local_checkpoint(remote) is None
    assert run_folder(remote) == tmp_path / "xdg" / "ruslo" / "pipelines" / "p"
