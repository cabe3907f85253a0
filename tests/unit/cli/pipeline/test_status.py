from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.runs.folder import RunFolder

STATUS = {
    "pipeline": "p",
    "file": "p.yaml",
    "state": "running",
    "dead_letters": 2,
    "queries": [
        {"sink": "sink", "state": "running", "phase": "live", "restarts": 1, "error": None, "records_in": 10,
         "in_per_second": 5.4, "records_out": 9, "out_per_second": 4.5, "lag_records": 3, "batch_ms": 200}
    ],
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(
        "source: {type: topic, topic: a, value: string}\nsink: {type: console}\ncheckpoint: state\n"
    )
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)], catch_exceptions=False)


def test_a_pipeline_that_never_ran(path: Path) -> None:
    result = run("status", path, "-o", "json")
    (entry,) = json.loads(result.stdout)
    assert (result.exit_code, entry["state"], entry["running"]) == (0, "never ran", False)
    assert run("stop", path).stdout == "p: not running\n"


def test_a_running_pipeline(path: Path) -> None:
    with RunFolder(path.parent / "state" / ".ruslo") as folder:
        folder.write_status(STATUS)
        result = run("status", path)
        assert result.exit_code == 0
        assert result.stdout.splitlines()[1].split() == [
            "p", "sink", "running", "10", "5", "9", "4", "3", "200", "2", "1",
        ]  # fmt: skip
        late = run("stop", path, "--timeout", "0.2")
        assert (late.exit_code, "did not stop within 0.2 s" in late.stderr) == (1, True)
        assert folder.stop_requested


def test_a_pipeline_whose_process_died(path: Path) -> None:
    with RunFolder(path.parent / "state" / ".ruslo") as folder:
        folder.write_status(STATUS)
    result = run("status", path)
    assert (result.exit_code, result.stdout.splitlines()[1].split()[2]) == (1, "died")


def test_invalid_files_are_reported(path: Path) -> None:
    path.write_text("source: {}\n")
    result = run("status", path)
    assert result.exit_code == 1
    assert "mistakes in the pipeline files" in result.stderr
