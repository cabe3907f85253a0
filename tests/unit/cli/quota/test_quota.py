from __future__ import annotations

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli

NOWHERE = {"RUSLO_BOOTSTRAP": "127.0.0.1:1", "RUSLO_PROFILE": "", "RUSLO_PASSWORD": ""}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["describe"], "Choose an entity"),
        (["set", "producer_byte_rate=1"], "Choose an entity"),
        (["set", "--user", "a"], "Missing argument"),
        (["set", "--user", "a", "producer_byte_rat=1"], "Use one of producer_byte_rate"),
        (["set", "--user", "a", "producer_byte_rate=0"], "is not a number above 0"),
        (["set", "--ip", "10.0.0.7", "producer_byte_rate=1"], "Use one of connection_creation_rate"),
        (["set", "--user", "a", "--default-user", "producer_byte_rate=1"], "exclude each other"),
        (["list", "--user", "a", "--ip", "10.0.0.7"], "--ip excludes"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(cli, ["quota", *arguments], env=NOWHERE)
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())
