from __future__ import annotations

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli

NOWHERE = {"RUSLO_BOOTSTRAP": "127.0.0.1:1", "RUSLO_PROFILE": "", "RUSLO_PASSWORD": ""}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["describe"], "Missing argument"),
        (["set-password", "alice"], "Use --password-file FILE, or set RUSLO_PASSWORD"),
        (["set-password", "alice", "--mechanism", "PLAIN"], "'PLAIN' is not one of"),
        (["set-password", "alice", "--iterations", "1"], "4096<=x<=16384"),
        (["delete", "alice"], "Add --yes to confirm"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(cli, ["user", *arguments], env=NOWHERE)
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())
