from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ruslo.cli.group.group import group
from ruslo.cli.main import cli


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["describe"], "Missing argument"),
        (["list", "--state", "asleep"], "'asleep' is not one of"),
        (["list", "--type", "tribe"], "'tribe' is not one of"),
        (["delete", "g"], "Add --yes"),
        (["delete-offsets", "g", "--yes"], "Choose the partitions"),
        (["delete-offsets", "g", "--topic", "t", "--all-topics"], "Choose the partitions"),
        (["delete-offsets", "g", "--topic", "t:x"], "Write t:0,2 or t:0-3"),
        (["delete-offsets", "g", "--topic", "t"], "Add --yes"),
        (["reset-offsets", "g", "--topic", "t"], "Choose one target"),
        (["reset-offsets", "g", "--topic", "t", "--to-earliest", "--to-latest"], "Choose one target"),
        (["reset-offsets", "g", "--topic", "t", "--to-offset", "0", "--shift-by", "0"], "Choose one target"),
        (["reset-offsets", "g", "--to-earliest"], "Choose the partitions"),
        (["reset-offsets", "g", "--to-earliest", "--topic", "t", "--all-topics"], "Choose the partitions"),
        (["reset-offsets", "g", "--topic", "t", "--to-offset", "-1"], "-1"),
        (["reset-offsets", "g", "--topic", "t", "--to-datetime", "2h"], "Invalid date and time '2h'"),
        (["reset-offsets", "g", "--topic", "t", "--by-duration", "soon"], "Invalid duration 'soon'"),
        (["reset-offsets", "g", "--topic", "t", "--to-latest", "--export", "--execute"], "--export only"),
        (["reset-offsets", "g", "--from-file", "no-such-file"], "no-such-file"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], problem: str) -> None:
    # Nothing listens on port 1: a command that connects would exit with 1.
    result = CliRunner().invoke(cli, ["group", *arguments], env={"RUSLO_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["describe", "g"],
        ["members", "g"],
        ["delete", "g", "--yes"],
        ["delete-offsets", "g", "--all-topics", "--yes"],
        ["reset-offsets", "g", "--all-topics", "--shift-by", "-5"],
    ],
)
def test_an_unreachable_broker(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["group", *arguments], env={"RUSLO_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 1
    assert "cannot connect to 127.0.0.1:1 (connection refused)" in result.stderr
    assert result.stdout == ""


def test_from_file_excludes_scopes(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets.csv"
    offsets.write_text("t,0,5\n")
    result = CliRunner().invoke(
        cli, ["group", "reset-offsets", "g", "--from-file", str(offsets), "--topic", "t"]
    )
    assert result.exit_code == 2
    assert "The file lists the partitions" in result.stderr


def test_a_mistake_in_a_file_is_reported_with_its_path(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets.csv"
    offsets.write_text("t,0,5\nt,1\n")
    result = CliRunner().invoke(cli, ["group", "reset-offsets", "g", "--from-file", str(offsets)])
    assert result.exit_code == 1
    assert "offsets.csv: line 2 has 2 fields" in result.stderr


def test_commands() -> None:
    verbs = {"list", "describe", "members", "reset-offsets", "delete", "delete-offsets"}
    assert set(group.commands) == verbs
