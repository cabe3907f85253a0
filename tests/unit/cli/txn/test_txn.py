from __future__ import annotations

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.cli.txn.list import STATES
from ruslo.cli.txn.txn import txn
from ruslo.client.admin import transactions

BY_HAND = ["--producer-id", "1", "--producer-epoch", "0", "--coordinator-epoch", "0"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["list", "--state", "asleep"], "'asleep' is not one of"),
        (["list", "--longer-than", "soon"], "Invalid duration 'soon'"),
        (["list", "--producer-id", "-1"], "-1"),
        (["describe"], "Missing argument"),
        (["producers"], "Missing argument"),
        (["producers", "t:x"], "Write t:0,2 or t:0-3"),
        (["find-hanging", "--topic", ":0"], "has no topic name"),
        (["find-hanging", "--max-transaction-timeout", "15"], "Invalid duration '15'"),
        (["abort"], "Choose a transaction"),
        (["abort", "t"], "Choose a transaction"),
        (["abort", "t", "0"], "Choose a transaction"),
        (["abort", "t", "--start-offset", "0"], "Choose a transaction"),
        (["abort", "t", "-1", "--start-offset", "0"], "No such option"),
        (["abort", "--start-offset", "0"], "Choose a transaction"),
        (["abort", *BY_HAND], "Choose a transaction"),
        (["abort", "t", "0", "--start-offset", "0", *BY_HAND], "Choose a transaction"),
        (["abort", "t", "0", *BY_HAND[:4]], "Set all of"),
        (["abort", "t", "0", *BY_HAND, "--force"], "--force needs --start-offset"),
        (["abort", "--transactional-id", "x", "--force"], "--force needs --start-offset"),
        (["abort", "t", "--transactional-id", "x"], "Choose a transaction"),
        (["abort", "t", "0", "--transactional-id", "x"], "Choose a transaction"),
        (["abort", "--transactional-id", "x", "--start-offset", "0"], "Choose a transaction"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], problem: str) -> None:
    # Nothing listens on port 1: a command that connects would exit with 1.
    result = CliRunner().invoke(cli, ["txn", *arguments], env={"RUSLO_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["describe", "x"],
        ["producers", "t"],
        ["find-hanging"],
        ["abort", "t", "0", "--start-offset", "0", "--yes"],
        ["abort", "t", "0", *BY_HAND, "--yes"],
        ["abort", "--transactional-id", "x", "--yes"],
    ],
)
def test_an_unreachable_broker(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["txn", *arguments], env={"RUSLO_BOOTSTRAP": "127.0.0.1:1"})
    assert result.exit_code == 1
    assert "cannot connect to 127.0.0.1:1 (connection refused)" in result.stderr
    assert result.stdout == ""


def test_commands() -> None:
    assert set(txn.commands) == {"list", "describe", "producers", "find-hanging", "abort"}


def test_states_match_the_client() -> None:
    # The states are repeated so that --help does not import the client.
    assert STATES == transactions.STATES
