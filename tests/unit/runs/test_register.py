from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ruslo.runs.folder import RunFolder
from ruslo.runs.register import known_runs, record_run


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_run_is_known_as_long_as_its_folder_exists(tmp_path: Path) -> None:
    assert known_runs() == []
    with RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b"):
        pass
    with RunFolder(tmp_path / "a"):
        pass
    assert sorted(known_runs()) == [tmp_path / "a", tmp_path / "b"]
    shutil.rmtree(tmp_path / "a")
    assert known_runs() == [tmp_path / "b"]


def test_a_state_folder_that_cannot_be_written_is_ignored(tmp_path: Path, state: Path) -> None:
    state.write_text("a file where a folder should be")
    record_run(tmp_path)
