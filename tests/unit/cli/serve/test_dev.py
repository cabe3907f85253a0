from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("before", [0, 1])
def test_a_port_in_use_is_reported_with_the_option_to_change_it(port_in_use: int, before: int) -> None:
    """Every port of a cluster is checked, not only the first."""
    arguments = ["dev", "--port", str(port_in_use - before), "--brokers", str(before + 1)]
    result = CliRunner().invoke(cli, arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.search(r"Port \d+ is in use by another process", result.stderr)
    assert "--port 0" in result.stderr
    assert "listeners" not in result.stderr, "users of dev do not set this property"


@pytest.mark.parametrize(
    "command",
    [
        ["dev", "--no-console"],
        ["serve", "-c", __file__],
        ["storage", "format", "-c", __file__, "--standalone"],
    ],
)
def test_a_misspelled_property_is_rejected(command: list[str]) -> None:
    result = CliRunner().invoke(cli, [*command, "--set", "num.partition=3"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Unknown broker property num.partition. Did you mean num.partitions?" in result.stderr


def test_ports_above_65535_are_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["dev", "--port", "65534", "--brokers", "3"])
    assert result.exit_code == 2
    assert "Choose a lower --port" in result.stderr


def test_a_secured_cluster_keeps_its_own_listeners(tmp_path: Path) -> None:
    arguments = ["dev", "--secure", "--port", "0", "--data-dir", str(tmp_path / "data")]
    result = CliRunner().invoke(cli, [*arguments, "--set", "listeners=PLAINTEXT://:9092"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--secure sets listeners itself" in " ".join(result.stderr.split())
    assert not (tmp_path / "data").exists()
