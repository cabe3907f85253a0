from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.pipeline.files.load import load_pipeline
from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.runner.run_folder import AlreadyRunning, RunFolder, local_checkpoint, run_folder


def pipeline(tmp_path: Path, checkpoint: str) -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text(
        "source: {type: topic, topic: a, value: string}\nsink: {type: console}\n"
        f"checkpoint: {checkpoint}\n"
    )
    return load_pipeline(path).valid()


def test_only_one_holds_it_at_a_time(tmp_path: Path) -> None:
    folder, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    assert not other.is_held()
    with folder:
        folder.write_status({"state": "running"})
        assert other.is_held()
        with pytest.raises(AlreadyRunning, match="runs already"):
            other.__enter__()
        status = other.status()
        assert status is not None
        assert status["state"] == "running"
    assert not other.is_held()
    with other:
        assert folder.is_held()


def test_a_wish_to_stop_is_for_the_run_that_is_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder:
        before = folder.stop_wanted
        RunFolder(tmp_path / "run").ask_to_stop()
        assert (before, folder.stop_wanted) == (False, True)
    with folder:
        assert not folder.stop_wanted, "an old wish does not stop a new run"


def test_the_place_to_start_is_kept_until_it_is_changed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert folder.start() is None
    folder.set_start("latest")
    assert RunFolder(tmp_path / "run").start() == "latest"
    folder.set_start(None)
    assert folder.start() is None


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_folder(pipeline(tmp_path, "state/p")) == tmp_path / "state" / "p" / ".ruslo"
    assert local_checkpoint(pipeline(tmp_path, "file:///data/p")) == Path("/data/p")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    far = pipeline(tmp_path, "hdfs://name/p")
    assert local_checkpoint(far) is None
    assert run_folder(far) == tmp_path / "xdg" / "ruslo" / "pipelines" / "p"
