"""The fixtures in a user's test run: pytest in a separate process and folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run_pytest(folder: Path, program: str) -> tuple[int, str]:
    (folder / "test_user.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run([*command, str(folder)], capture_output=True, text=True, cwd=folder, timeout=120)
    return result.returncode, result.stdout + result.stderr


def test_fixtures(tmp_path: Path) -> None:
    code, output = run_pytest(
        tmp_path,
        """
seen = []

def test_shared(ruslo_broker):
    seen.append(ruslo_broker.bootstrap)
    assert ruslo_broker.running

def test_shared_again(ruslo_broker, ruslo_broker_factory):
    assert [ruslo_broker.bootstrap] == seen
    other = ruslo_broker_factory({"num.partitions": "2"})
    assert other.running
    assert other.bootstrap != ruslo_broker.bootstrap
    other.kill()
""",
    )
    assert (code, "2 passed" in output) == (0, True), output


def test_a_crashed_broker_does_not_keep_the_others_running(tmp_path: Path) -> None:
    code, output = run_pytest(
        tmp_path,
        """
import os, signal, time

brokers = []

def test_one_dies(ruslo_broker_factory):
    brokers.extend(ruslo_broker_factory() for _ in range(2))
    os.kill(brokers[0].pid, signal.SIGKILL)
    while brokers[0].running:
        time.sleep(0.01)

def test_none_is_left():
    assert not brokers[1].running
""",
    )
    assert code == 1
    assert "2 passed, 1 error" in output, output
    assert "had already exited" in output


def test_a_failure_shows_the_broker_s_log(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, "def test_it(ruslo_broker):\n    assert False\n")
    assert code == 1
    assert "ruslo broker log" in output
    assert "is ready at 127.0.0.1:" in output


def test_loading_the_plugin_imports_nothing_of_the_broker() -> None:
    program = "import ruslo.testing.pytest_plugin, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"asyncio", "confluent_kafka", "uvloop", "ruslo.broker", "ruslo.protocol"} & set(loaded)


def test_the_example_of_the_documentation_passes(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[3] / "examples" / "testing" / "test_orders.py"
    code, output = run_pytest(tmp_path, example.read_text())
    assert (code, "1 passed" in output) == (0, True), output
