from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from ruslo.cli.doctor.checks import State, examine, file_system, java_version
from ruslo.cli.main import cli


def test_a_port_in_use_is_reported_with_its_fix(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        findings = {finding.name: finding for finding in examine(tmp_path, [port])}
    taken = findings[f"port {port}"]
    assert taken.state is State.WARNING
    assert taken.fix is not None
    assert str(port) in taken.fix
    names = {
        "python",
        "packages",
        "java",
        "open files",
        "disk space",
        "file system",
        "clock",
        "vm.swappiness",
    }
    assert names <= findings.keys()
    assert all(finding.fix for finding in findings.values() if finding.state is not State.OK)


def test_a_missing_data_folder(tmp_path: Path) -> None:
    findings = {finding.name: finding for finding in examine(tmp_path / "a" / "b", [])}
    assert str(tmp_path) in findings["disk space"].found


def test_exit_codes_and_json() -> None:
    done = CliRunner().invoke(cli, ["doctor", "-o", "json"])
    response = json.loads(done.output)
    states = {check["state"] for check in response["checks"]}
    assert response["ok"] == ("problem" not in states)
    assert done.exit_code == (0 if response["ok"] else 1)
    strict = CliRunner().invoke(cli, ["doctor", "--strict"])
    assert strict.exit_code == (0 if states == {"ok"} else 1)


def test_output_for_a_pipe_has_no_colours() -> None:
    assert "\x1b" not in CliRunner().invoke(cli, ["doctor"], color=True).output


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_versions_of_java(text: str, version: int | None) -> None:
    assert java_version(text) == version


def test_the_file_system_of_a_path() -> None:
    mounts = "/dev/a / ext4 rw 0 0\nserver:/x /mnt/nfs\\040share nfs4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
    assert file_system(Path("/var/lib"), mounts) == "ext4"
    assert file_system(Path("/mnt/nfs share/data"), mounts) == "nfs4"
    assert file_system(Path("/tmp"), mounts) == "tmpfs"
    assert file_system(Path("/tmpx"), mounts) == "ext4"
