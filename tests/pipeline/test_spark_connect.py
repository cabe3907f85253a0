"""A real Spark Connect server: clients read and write topics, and pipelines run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.testing import EmbeddedBroker
from tests.pipeline.connect_job import COPY, NUMBERS, RECORDS_PER_BATCH, ROWS
from tests.pipeline.connect_server import connect_server
from tests.pipeline.copy_job import GROUP
from tests.pipeline.pipelines import RunningPipeline, create, received, send
from tests.support.checks.cli_checks import RUSLO, Cli

pytestmark = pytest.mark.timeout(1800)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as found:
        yield found


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def lags(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    (described,) = Cli(bootstrap).json("group", "describe", group)
    return {(row["topic"], row["partition"]): row["lag"] for row in described["partitions"]}


def test_a_job_writes_reads_and_copies_each_record_once(address: str, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, NUMBERS, COPY)
    job = [sys.executable, "-m", "tests.pipeline.connect_job", address, bootstrap, str(tmp_path / "state")]
    ended = subprocess.run(job, capture_output=True, text=True, cwd=ROOT, timeout=800)
    assert ended.returncode == 0, ended.stderr
    results = json.loads(ended.stdout)
    assert results["decoded"] == [ROWS, sum(range(ROWS)), 2]
    first, again = results["copied"]
    assert sum(first) == ROWS
    assert max(first) <= RECORDS_PER_BATCH
    assert sum(again) == first[-1], "Spark has repeated the last batch"
    assert sorted(row["n"] for row in received(bootstrap, COPY)) == list(range(ROWS))
    assert lags(bootstrap, GROUP) == {(NUMBERS, 0): 0, (NUMBERS, 1): 0}


PIPELINE = """\
source: {name: orders, type: topic, topic: orders, schema: n INT, max_records_per_batch: 100}
steps:
  - name: doubled
    sql: SELECT n, 2 * n AS twice FROM orders
sink: {type: topic, topic: doubled, key: n}
trigger: 100ms
checkpoint: state
dead_letters: orders.dead
group: doubled-group
on_error: {delay: 100ms, max_delay: 2s}
"""


def test_a_pipeline_is_stopped_and_resumed(address: str, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "orders", "doubled", "orders.dead")
    send(bootstrap, "orders", [*({"n": n} for n in range(400)), "{broken"])
    path = tmp_path / "orders.yaml"
    path.write_text(PIPELINE)
    environment = {**os.environ, "RUSLO_BOOTSTRAP": bootstrap}

    def run(*options: str) -> RunningPipeline:
        arguments = [str(path), "--master", address, "-o", "json", *options]
        return RunningPipeline(tmp_path / "run.log", *arguments, environment=environment)

    live = run()
    try:
        live.wait_for(lambda: len(received(bootstrap, "doubled")) >= 100, "a first batch", 600)
    finally:
        stopped = CliRunner().invoke(cli, ["pipeline", "stop", str(path)])
        # The query has stopped; the process ends with its client.
        live.process.wait(180)
        code, output = live.end()
    assert (stopped.exit_code, code) == (0, 0), live.log()
    (begun,) = json.loads(output)
    assert begun["state"] == "stopped"

    send(bootstrap, "orders", [{"n": n} for n in range(400, 450)])
    rest = run("--once")
    rest.process.wait(600)
    code, output = rest.end()
    assert code == 0, rest.log()
    (ended,) = json.loads(output)
    assert ended["state"] == "finished"
    assert ended["queries"][0]["lag_records"] == 0
    rows = received(bootstrap, "doubled")
    assert sorted(row["n"] for row in rows) == list(range(450))
    assert all(row["twice"] == 2 * row["n"] for row in rows)
    # A batch that the stop interrupted at its start is counted by the next run.
    assert sum(run["queries"][0]["records_out"] for run in (begun, ended)) == 450
    assert sum(run["queries"][0]["records_in"] for run in (begun, ended)) >= 450
    dead = Cli(bootstrap).lines("consume", "orders.dead", "--exit", "-X", "isolation.level=read_committed")
    assert [line["value"] for line in dead] == ["{broken"]
    assert lags(bootstrap, "doubled-group") == {("orders", 0): 0, ("orders", 1): 0}


def test_an_environment_cannot_be_sent_to_a_server(tmp_path: Path) -> None:
    for name in ("p.yaml", "env.tar.gz"):
        (tmp_path / name).write_text(PIPELINE)
    options = ["--master", "sc://127.0.0.1:1", "--env", str(tmp_path / "env.tar.gz")]
    rejected = CliRunner().invoke(cli, ["pipeline", "run", str(tmp_path / "p.yaml"), *options])
    assert rejected.exit_code == 2
    assert "Install Ruslo on the server" in rejected.stderr


def test_a_sink_that_uses_foreach_batch_is_rejected(address: str, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "orders", "doubled", "orders.dead")
    path = tmp_path / "updates.yaml"
    path.write_text(PIPELINE.replace("key: n}", "key: n, mode: update}"))
    rejected = subprocess.run(
        [*RUSLO, "pipeline", "run", str(path), "--master", address, "-b", bootstrap],
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert rejected.returncode == 1
    assert "without delivery guarantees" in rejected.stderr
    assert "Traceback" not in rejected.stderr
