"""``ruslo dev`` and ``ruslo serve`` as people run them: processes that are started, used and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checks.cli_checks import RUSLO, Cli
from tests.support.network.ports import free_port, wait_for_metadata


def start(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*RUSLO, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def finish(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    return process.returncode, output, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_dev_prints_one_line_serves_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = start("dev", "--port", "0", env=os.environ | {"TMPDIR": str(tmp_path)})
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("bootstrap.servers=127.0.0.1:")
    cli = Cli(line.strip().partition("=")[2])
    cli.ok("produce", "t", stdin="hello\n")
    assert cli.ok("consume", "t", "-e") == "hello\n"
    assert len(list(tmp_path.iterdir())) == 1
    assert finish(process, number) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_dev_keeps_its_data_in_the_given_directory(tmp_path: Path) -> None:
    port = free_port()
    for run in range(2):
        process = start(
            "dev", "--port", str(port), "--data-dir", str(tmp_path / "data"), "--set", "num.partitions=2"
        )
        assert process.stdout is not None
        assert process.stdout.readline() == f"bootstrap.servers=127.0.0.1:{port}\n"
        cli = Cli(f"127.0.0.1:{port}")
        cli.ok("produce", "t", "-p", "0", stdin=f"run {run}\n")
        assert cli.ok("consume", "t", "-e").splitlines() == [f"run {n}" for n in range(run + 1)]
        assert [topic["partitions"] for topic in cli.json("topic", "list")] == [2]
        assert finish(process, signal.SIGINT)[0] == 0


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[str]:
    process = start("dev", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert process.stdout is not None
    yield process.stdout.readline().strip().partition("=")[2]
    finish(process, signal.SIGTERM)


def test_a_port_or_folder_in_use_is_explained(dev: str, tmp_path: Path) -> None:
    port = dev.rpartition(":")[2]
    other = subprocess.run([*RUSLO, "dev", "--port", port], capture_output=True, text=True, timeout=30)
    assert (other.returncode, other.stdout) == (1, "")
    assert f"Port {port} is in use" in other.stderr
    assert "Traceback" not in other.stderr
    same_folder = [*RUSLO, "dev", "--port", "0", "--data-dir", str(tmp_path / "data")]
    other = subprocess.run(same_folder, capture_output=True, text=True, timeout=30)
    assert (other.returncode, other.stdout) == (1, "")
    assert "in use" in other.stderr
    assert "Traceback" not in other.stderr


def test_serve_needs_a_formatted_directory_and_then_serves(tmp_path: Path) -> None:
    port = free_port()
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{free_port()}\nlog.dirs={tmp_path}/elsewhere\n"
    )
    arguments = ["-c", str(properties), "--set", f"log.dirs={tmp_path}/data"]
    refused = subprocess.run([*RUSLO, "serve", *arguments], capture_output=True, text=True, timeout=30)
    assert refused.returncode == 1
    assert "ruslo storage format" in refused.stderr
    subprocess.run([*RUSLO, "storage", "format", *arguments, "--standalone"], check=True, timeout=30)
    process = start("serve", *arguments)
    wait_for_metadata("127.0.0.1", port, None, 30)
    assert Cli(f"127.0.0.1:{port}").json("cluster", "info")["brokers"][0]["port"] == port
    code, output, log = finish(process, signal.SIGTERM)
    assert (code, output) == (0, "")
    assert f"ready: bootstrap.servers=127.0.0.1:{port}" in log
    assert not (tmp_path / "elsewhere").exists()


def test_a_start_that_waits_for_its_quorum_obeys_sigterm(tmp_path: Path) -> None:
    controller, other = free_port(), free_port()
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{controller}\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller},2@127.0.0.1:{other}\n"
        f"log.dirs={tmp_path}/data\nruslo.metrics.listener=127.0.0.1:0\n"
    )
    subprocess.run([*RUSLO, "storage", "format", "-c", str(properties)], check=True, timeout=30)
    process = start("serve", "-c", str(properties))
    assert process.stderr is not None
    # The node has started to start; the other voter never does.
    assert "metrics at" in process.stderr.readline()
    code, output, log = finish(process, signal.SIGTERM)
    assert (code, output) == (0, "")
    assert "Traceback" not in log


def test_the_demo_brings_its_own_broker() -> None:
    demo = subprocess.run(
        [*RUSLO, "demo", "--no-spark", "--seconds", "1.5"],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert demo.returncode == 0, demo.stderr
    assert demo.stdout.endswith("Nothing was lost or duplicated.\n")
