from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.runs.folder import RunFolder
from ruslo.runs.report import known_reports, read_report

QUERY = {"sink": "out", "state": "running", "in_per_second": 5.0, "lag_records": 3, "batch_ms": 20}
STATUS = {
    "pipeline": "p",
    "state": "running",
    "dead_letter_topic": "p.dead",
    "queries": [QUERY, QUERY | {"lag_records": None}],
}


def test_running_pipelines_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with RunFolder(tmp_path / "old") as old:
        old.write_status(STATUS | {"state": "finished", "pipeline": "old", "updated_at": 9.0})
    with RunFolder(tmp_path / "new") as new:
        new.write_status(STATUS | {"updated_at": 1.0})
        running, finished = known_reports()
    assert (running.pipeline, running.running, running.dead_letter_topic) == ("p", True, "p.dead")
    assert (running.records_in_per_second, running.lag_records) == (10.0, 3)
    assert (running.source_topics, running.group, running.queries[0].topics) == ((), None, ()), (
        "missing in older statuses"
    )
    assert (finished.pipeline, finished.running, finished.state) == ("old", False, "finished")


def test_an_unreadable_status_has_no_report(tmp_path: Path) -> None:
    assert read_report(tmp_path) is None
    (tmp_path / "status.json").write_text("{ half of")
    assert read_report(tmp_path) is None
