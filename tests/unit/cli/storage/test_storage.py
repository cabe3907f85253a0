from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.model.ids import uuid_from_text


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["storage", *arguments], catch_exceptions=False)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=5\nlisteners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    return path


def test_format_then_info(properties: Path, tmp_path: Path) -> None:
    unformatted = run("info", "-c", str(properties))
    assert unformatted.exit_code == 1
    assert "not formatted" in unformatted.stdout
    assert "ruslo storage format" in unformatted.stderr
    made = run("format", "-c", str(properties), "--standalone", "-o", "json")
    assert made.exit_code == 0
    result = json.loads(made.stdout)
    assert sorted(result["formatted"]) == [f"{tmp_path}/a", f"{tmp_path}/b"]
    info = json.loads(run("info", "-c", str(properties), "-o", "json").stdout)
    assert [entry["cluster_id"] for entry in info] == [result["cluster_id"]] * 2
    assert [entry["node_id"] for entry in info] == [5, 5]
    assert info[0]["directory_id"] != info[1]["directory_id"]


def test_formatting_twice_needs_ignore_formatted(properties: Path) -> None:
    cluster_id = run("random-uuid").stdout.strip()
    assert run("format", "-c", str(properties), "-s", "-t", cluster_id).exit_code == 0
    again = run("format", "-c", str(properties), "-s", "-t", cluster_id)
    assert again.exit_code == 1
    assert "--ignore-formatted" in again.stderr
    assert run("format", "-c", str(properties), "-s", "-t", cluster_id, "-g").exit_code == 0
    other = run("format", "-c", str(properties), "-s", "-g", "-t", run("random-uuid").stdout.strip())
    assert other.exit_code == 1
    assert f"belongs to cluster {cluster_id}" in other.stderr


def test_the_voters_must_be_chosen(properties: Path) -> None:
    result = run("format", "-c", str(properties))
    assert result.exit_code == 1
    assert "--standalone" in result.stderr


def test_settings_override_the_file(properties: Path, tmp_path: Path) -> None:
    result = run("format", "-c", str(properties), "-s", "--set", f"log.dirs={tmp_path}/c", "-o", "json")
    assert json.loads(result.stdout)["formatted"] == [f"{tmp_path}/c"]


def test_an_invalid_property_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("log.dirs=/nowhere\n")
    result = run("format", "-c", str(path))
    assert result.exit_code == 1
    assert "node.id" in result.stderr or "process.roles" in result.stderr


def test_random_uuid() -> None:
    first, second = run("random-uuid").stdout.strip(), run("random-uuid").stdout.strip()
    assert first != second
    assert len(uuid_from_text(first)) == 16
