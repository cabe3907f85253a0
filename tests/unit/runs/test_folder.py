from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from ruslo.runs.folder import AlreadyRunning, RunFolder


def test_only_one_process_holds_the_lock(tmp_path: Path) -> None:
    folder, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    assert not other.is_held()
    with folder:
        folder.write_status({"state": "running"})
        assert other.is_held()
        with pytest.raises(AlreadyRunning, match="is already running"):
            other.__enter__()
        status = other.status()
        assert status is not None
        assert status["state"] == "running"
    assert not other.is_held()
    with other:
        assert folder.is_held()


def test_reader_does_not_count_as_a_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder:
        pass
    reader = (tmp_path / "lock").open("r+")
    fcntl.flock(reader, fcntl.LOCK_SH)
    assert not folder.is_held()
    closing = threading.Timer(0.05, reader.close)
    closing.start()
    with folder:
        closing.join()
        assert RunFolder(tmp_path).is_held()


def test_a_stop_request_applies_to_the_current_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder:
        before = folder.stop_requested
        RunFolder(tmp_path / "run").request_stop()
        assert (before, folder.stop_requested) == (False, True)
    with folder:
        assert not folder.stop_requested, "an old request does not stop a new run"


def test_the_start_position_is_kept_until_it_is_changed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert folder.start() is None
    folder.set_start("latest")
    assert RunFolder(tmp_path / "run").start() == "latest"
    folder.set_start(None)
    assert folder.start() is None


def test_a_run_whose_process_ended_is_reported_as_died(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert folder.report() is None
    with folder:
        folder.write_status({"state": "running"})
        report = RunFolder(tmp_path / "run").report()
        assert report is not None
        assert (report["state"], report["running"]) == ("running", True)
    report = folder.report()
    assert report is not None
    assert (report["state"], report["running"]) == ("died", False)
