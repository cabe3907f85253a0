"""``python -m ruslo.testing.histories``."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from ruslo.testing import EmbeddedBroker
from ruslo.testing.histories import save
from ruslo.testing.histories.__main__ import histories
from tests.support.txns.histories import A, HistoryBuilder


def valid_history() -> HistoryBuilder:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t")
    history.read_to_the_end(A, 2, {0: "a"})
    return history


def test_valid_history(tmp_path: Path) -> None:
    save(tmp_path / "history.jsonl", valid_history().events)
    result = CliRunner().invoke(histories, ["check", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "no anomaly" in result.output


def test_invalid_history(tmp_path: Path) -> None:
    history = valid_history()
    history.poll(A, 0, 2, {})
    save(tmp_path / "history.jsonl", history.events)
    result = CliRunner().invoke(histories, ["check", str(tmp_path / "history.jsonl")])
    assert result.exit_code == 1
    assert "inconsistent-read: " in result.output


def test_a_history_without_final_reads(tmp_path: Path) -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t")
    save(tmp_path / "history.jsonl", history.events)
    result = CliRunner().invoke(histories, ["check", str(tmp_path)])
    assert result.exit_code == 1
    assert "not read to the end" in result.output


def test_a_file_that_is_not_a_history(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("something else\n")
    result = CliRunner().invoke(histories, ["check", str(tmp_path)])
    assert result.exit_code == 2
    assert "this is not a history: " in result.output
    assert "history.jsonl, line 1" in result.output


def test_a_broker_passes_the_workload(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        arguments = ["--bootstrap-server", broker.bootstrap, "--seconds", "2", "--writers", "2"]
        result = CliRunner().invoke(histories, ["run", *arguments, str(tmp_path / "history")])
        assert result.exit_code == 0, result.output
    assert "committed" in result.output
    assert "no anomaly" in result.output
    again = CliRunner().invoke(histories, ["check", str(tmp_path / "history")])
    assert again.output == result.output
    taken = CliRunner().invoke(histories, ["run", str(tmp_path / "history")])
    assert taken.exit_code == 2
    assert "is not empty" in taken.output
