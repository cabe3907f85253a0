from __future__ import annotations

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.cli.share.share import share


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["describe"], "Missing argument"),
        (["list", "--state", "asleep"], "'asleep' is not one of"),
        (["offsets", "g", "--topic", "t:x"], "Write t:0,2 or t:0-3"),
        (["reset-offsets", "g", "--topic", "t"], "Choose one target"),
        (["reset-offsets", "g", "--to-earliest"], "Choose the partitions"),
        (["reset-offsets", "g", "--topic", "t", "--to-latest", "--export", "--execute"], "--export only"),
        (["delete", "g"], "Add --yes"),
        (["delete-offsets", "g", "--yes"], "Choose the topics"),
        (["delete-offsets", "g", "--topic", "t", "--all-topics"], "Choose the topics"),
        (["delete-offsets", "g", "--topic", "t"], "Add --yes"),
        (["reject", "g", "orders@3"], "'orders@3' is not a record. Write TOPIC:PARTITION@OFFSET"),
        (["reject", "g", "orders:0@9-3"], "'orders:0@9-3' is not a record"),
        (["reject", "g", "orders:0@1-99999"], "Name at most 10,000 records"),
        (["reject", "g", "orders:0@1-6000", "orders:1@1-6000"], "Name at most 10,000 records"),
        (["release", "g", "orders:0@1-2", "orders:1@1"], "Release 3 records of g? "),
        (["consume", "t"], "Missing option '-g'"),
        (["consume", "t", "-g", "g", "-f", "%q"], "%T %h %d or %%"),
        (["consume", "t", "-g", "g", "-f", "%s", "-o", "json"], "--format and -o exclude each other"),
        (["consume", "t", "-g", "g", "--timeout", "soon"], "Invalid duration 'soon'"),
        (["consume", "t", "-g", "g", "--acknowledge", "maybe"], "'maybe' is not one of"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], problem: str) -> None:
    # Nothing listens on port 1: a command that connects would exit with 1.
    result = CliRunner().invoke(cli, ["share", *arguments], env={"RUSLO_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["describe", "g"],
        ["offsets", "g"],
        ["config", "g"],
        ["consume", "t", "-g", "g"],
        ["reject", "g", "t:0@1", "--yes"],
        ["delete", "g", "--yes"],
        ["delete-offsets", "g", "--all-topics", "--yes"],
        ["reset-offsets", "g", "--all-topics", "--shift-by", "-5"],
    ],
)
def test_an_unreachable_broker(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["share", *arguments], env={"RUSLO_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 1
    assert "127.0.0.1:1 (connection refused)" in result.stderr
    assert result.stdout == ""


def test_commands() -> None:
    assert set(share.commands) == {
        *("list", "describe", "offsets", "config"),
        *("consume", "reject", "release", "replay"),
        *("reset-offsets", "delete", "delete-offsets"),
    }
