"""A running pipeline whose broker is killed and restarted; it is stopped with Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli
from tests.pipeline.pipelines import SHORT_LIVED_SPARK, RunningPipeline, create, received, send
from tests.support.brokers.ruslo import RusloNode

PIPELINE = """\
source: {name: numbers, type: topic, topic: numbers, schema: n INT, max_records_per_batch: 50}
sink: {type: topic, topic: copies, key: n, options: {kafka.delivery.timeout.ms: 3000}}
steps:
  - {name: plain, sql: SELECT n FROM numbers}
trigger: 100ms
checkpoint: state
on_error: {delay: 200ms, max_delay: 1s}
"""


@pytest.mark.timeout(1200)
def test_a_pipeline_continues_after_an_outage_and_ctrl_c_stops_it_after_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "numbers.yaml"
    path.write_text(PIPELINE)
    with RusloNode(tmp_path / "node") as node:
        create(node.bootstrap, "numbers", "copies")
        send(node.bootstrap, "numbers", [{"n": n} for n in range(1000)])
        running = RunningPipeline(
            tmp_path / "log",
            str(path),
            *("--master", "local[2]", "-o", "json", *SHORT_LIVED_SPARK),
            environment={**os.environ, "RUSLO_BOOTSTRAP": node.bootstrap},
        )

        def metric(name: str) -> int:
            (entry,) = json.loads(
                CliRunner().invoke(cli, ["pipeline", "status", str(path), "-o", "json"]).stdout
            )
            return sum(query[name] for query in entry["queries"])

        try:
            running.wait_for(lambda: metric("records_out") >= 100, "the first batches")
            node.kill()
            running.wait_for(lambda: metric("restarts") >= 1, "the query failed")
            node.start()
            send(node.bootstrap, "numbers", [{"n": n} for n in range(1000, 1200)])
            running.wait_for(lambda: len(received(node.bootstrap, "copies")) >= 1200, "all records")
        finally:
            if running.process.poll() is None:
                # A terminal sends the signal to all processes of the command, including Spark's.
                os.killpg(running.process.pid, signal.SIGINT)
            output, _ = running.process.communicate(timeout=120)
        assert running.process.returncode == 0, running.log()
        (summary,) = json.loads(output)
        assert summary["state"] == "stopped"
        assert sorted(row["n"] for row in received(node.bootstrap, "copies")) == list(range(1200))
    commits = {name for name in os.listdir(tmp_path / "state" / "sink" / "commits") if name.isdigit()}
    begun = {name for name in os.listdir(tmp_path / "state" / "sink" / "offsets") if name.isdigit()}
    assert len(begun - commits) <= 1, "the current batch was finished, at most the next one was planned"
