from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli

NOWHERE = {"RUSLO_BOOTSTRAP": "127.0.0.1:1", "RUSLO_PROFILE": ""}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["create", "--renewer", "scheduler"], "'scheduler'"),
        (["create", "--max-lifetime", "soon"], "Invalid duration 'soon'"),
        (["renew"], "Missing argument 'ID'"),
        (["expire", "id"], "Add --yes to confirm"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(cli, ["token", *arguments], env=NOWHERE)
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())


def test_a_token_does_not_overwrite_a_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("kept")
    result = CliRunner().invoke(cli, ["token", "create", "--password-file", str(path)], env=NOWHERE)
    assert result.exit_code == 2
    assert path.read_text() == "kept"
