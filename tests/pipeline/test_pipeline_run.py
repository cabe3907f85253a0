"""Pipelines with a broker: the examples, side by side in one Spark."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.model.errors import ConfigError
from ruslo.pipeline.runner.pipeline_run import PipelineRun
from ruslo.pipeline.runner.query_run import Phase
from ruslo.testing import EmbeddedBroker
from tests.pipeline.pipelines import (
    SHORT_LIVED_SPARK,
    RunningPipeline,
    create,
    example,
    received,
    send,
    supervise,
)
from tests.support.checks.cli_checks import Cli
from tests.support.network.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = "2026-01-01T"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def pipeline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.timeout(600)
def test_the_examples_side_by_side(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "orders", "customers", "clicks", "payments", "events")
    create(
        bootstrap,
        "paid-orders",
        "named-orders",
        "sales",
        "visits",
        "payments-once",
        "events-copy",
        "orders.dead",
    )
    orders = [
        {"id": n, "shop": "de-1" if n % 2 else "fr-1", "status": "paid" if n % 3 else "open", "amount": n,
         "customer": f"c{n % 2}", "at": f"{DAY}10:{n:02}:00Z"}
        for n in range(40)
    ]  # fmt: skip
    send(bootstrap, "orders", orders, key="id")
    send(
        bootstrap,
        "customers",
        [{"id": "c0", "name": "Old"}, {"id": "c0", "name": "Ann", "city": "Berlin"}],
        key="id",
    )
    send(bootstrap, "clicks", [{"user": "ann", "at": f"{DAY}10:{n:02}:00Z"} for n in (0, 5, 9)], key="user")
    send(
        bootstrap,
        "payments",
        [{"id": f"p{n % 4}", "amount": n % 4, "at": f"{DAY}10:00:00Z"} for n in range(12)],
    )
    send(bootstrap, "events", ['"hello"', '"my password"'])
    paths = example(tmp_path, "filter_and_enrich.yaml", "join_with_table.yaml", "copy_topic.py")
    runs = supervise(spark, paths, bootstrap, once=True)
    with_state = example(tmp_path, "windows.yaml", "sessions.yaml", "deduplicate.yaml")
    runs += supervise(spark, with_state, bootstrap, once=True)

    assert [run.state for run in runs] == ["finished"] * 6
    paid = received(bootstrap, "paid-orders")
    assert sorted(row["id"] for row in paid) == [n for n in range(40) if n % 3]
    assert {row["country"] for row in paid} == {"Germany", "France"}
    named = {row["id"]: row["name"] for row in received(bootstrap, "named-orders")}
    assert named == {n: "Ann" if n % 2 == 0 else None for n in range(40)}
    assert sorted(row["id"] for row in received(bootstrap, "payments-once")) == ["p0", "p1", "p2", "p3"]
    assert received(bootstrap, "events-copy") == ["hello"]
    metrics = runs[0].runs[0].metrics
    assert (metrics.records_in, metrics.records_out, metrics.lag_records) == (40, len(paid), 0)
    described = Cli(bootstrap).json("group", "describe", "filter-and-enrich")
    assert "filter-and-enrich" in json.dumps(described)

    # An hour later: windows and visits are over, and an undecodable record becomes a dead letter.
    send(bootstrap, "orders", [{"id": 100, "shop": "de-1", "amount": 1, "at": f"{DAY}11:30:00Z"}, "{broken"])
    send(bootstrap, "clicks", [{"user": "bob", "at": f"{DAY}11:30:00Z"}])
    (tmp_path / "windows.yaml").write_text(
        (tmp_path / "windows.yaml").read_text() + "dead_letters: orders.dead\n"
    )
    again = supervise(spark, with_state[:2], bootstrap, once=True)
    sales = received(bootstrap, "sales")
    assert sum(row["orders"] for row in sales) == 40
    assert sum(row["amount"] for row in sales) == sum(range(40))
    assert len({(row["begins"], row["shop"]) for row in sales}) == len(sales) == 16
    assert received(bootstrap, "visits") == [
        {"user": "ann", "begins": f"{DAY}10:00:00.000Z", "ends": f"{DAY}10:09:00.000Z", "clicks": 3}
    ]
    assert again[0].dead_letters == 1


def test_history_first_then_live(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "positions", "driven")
    (path,) = example(tmp_path, "history_then_live.yaml")
    send(bootstrap, "positions", [{"van": f"v{n % 3}", "km": 1} for n in range(3000)], key="van")
    phases: list[Phase] = []

    def watch(runs: Sequence[PipelineRun]) -> None:
        query = runs[0].runs[0]
        if not phases or phases[-1] is not query.phase:
            phases.append(query.phase)
            if query.phase is Phase.LIVE:
                assert query.metrics.records_in == 3000
                assert query.metrics.batches <= 2, "history is read in large batches"
                send(bootstrap, "positions", [{"van": "v0", "km": 5}], key="van")
        if query.metrics.records_in == 3001:
            runs[0].folder.request_stop()

    (run,) = supervise(spark, [path], bootstrap, watch=watch)
    assert phases == [Phase.HISTORY, Phase.LIVE]
    assert run.state == "stopped"
    last = {row["van"]: row for row in received(bootstrap, "driven")}
    assert last["v0"] == {"van": "v0", "km": 1005.0, "positions": 1001}
    assert last["v1"] == {"van": "v1", "km": 1000.0, "positions": 1000}


def test_a_table_is_read_again_for_every_batch(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "sold", "people", "sold-named")
    (path,) = example(tmp_path, "join_with_table.yaml")
    text = (
        path.read_text().replace("topic: orders", "topic: sold").replace("topic: customers", "topic: people")
    )
    path.write_text(text.replace("topic: named-orders", "topic: sold-named") + "trigger: 100ms\n")
    send(bootstrap, "people", [{"id": "c1", "name": "Ann"}], key="id")
    send(bootstrap, "sold", [{"id": 1, "customer": "c1"}])
    renamed = False

    def watch(runs: Sequence[PipelineRun]) -> None:
        nonlocal renamed
        rows_out = runs[0].runs[0].metrics.records_out
        if rows_out == 1 and not renamed:
            renamed = True
            send(bootstrap, "people", [{"id": "c1", "name": "Anna"}], key="id")
            send(bootstrap, "sold", [{"id": 2, "customer": "c1"}])
        if rows_out == 2:
            runs[0].folder.request_stop()

    supervise(spark, [path], bootstrap, watch=watch)
    assert {row["id"]: row["name"] for row in received(bootstrap, "sold-named")} == {1: "Ann", 2: "Anna"}


LIVE = """\
source: {{name: numbers, type: topic, topic: {topic}, schema: n INT, max_records_per_batch: 50}}
steps:
  - name: checked
    sql: SELECT n, assert_true(n < 1000) AS fine FROM numbers
sink: {{type: topic, topic: {topic}-out, key: n}}
trigger: 100ms
checkpoint: state
on_error: {{delay: 100ms, restarts: 2}}
group: {topic}-group
"""


def test_a_query_that_keeps_failing_is_restarted_and_then_fails(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "poison", "poison-out")
    send(bootstrap, "poison", [{"n": n} for n in (1, 2)])
    path = tmp_path / "p.yaml"
    path.write_text(LIVE.format(topic="poison"))

    def watch(runs: Sequence[PipelineRun]) -> None:
        if runs[0].runs[0].metrics.records_in == 2:
            send(bootstrap, "poison", [{"n": 5000}])
            runs[0].runs[0].metrics.records_in += 1

    with pytest.raises(AssertionError, match="USER_RAISED_EXCEPTION"):
        supervise(spark, [path], bootstrap, watch=watch)
    status = pipeline("status", path, "-o", "json")
    (entry,) = json.loads(status.stdout)
    assert (status.exit_code, entry["state"], entry["running"]) == (1, "failed", False)
    assert entry["queries"][0]["restarts"] == 2
    assert (entry["source_topics"], entry["group"]) == (["poison"], "poison-group")
    assert entry["queries"][0]["topics"] == ["poison-out"]
    assert sorted(row["n"] for row in received(bootstrap, "poison-out")) == [1, 2]


@pytest.mark.timeout(1200)
def test_a_pipeline_is_stopped_from_another_process_and_resumed(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "work", "work-out")
    send(bootstrap, "work", [{"n": n} for n in range(500)])
    path, port = tmp_path / "work.yaml", free_port()
    path.write_text(LIVE.format(topic="work"))
    environment = {**os.environ, "RUSLO_BOOTSTRAP": bootstrap}
    options = ["--master", "local[2]", "-o", "json", *SHORT_LIVED_SPARK]
    running = RunningPipeline(
        tmp_path / "log", str(path), "--metrics-port", str(port), *options, environment=environment
    )
    try:

        def some_done() -> bool:
            (entry,) = json.loads(pipeline("status", path, "-o", "json").stdout)
            return bool(entry["running"] and entry["queries"][0]["records_out"] >= 50)

        running.wait_for(some_done, "the first batch")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
            metrics = response.read().decode()
        assert 'ruslo_pipeline_records_out_total{pipeline="work",sink="sink"}' in metrics
        assert 'ruslo_pipeline_state{pipeline="work",sink="sink",state="running"} 1.0' in metrics
        assert (
            "is running: stop it first"
            in CliRunner().invoke(cli, ["pipeline", "reset", str(path), "-y"]).stderr
        )
    finally:
        stopped = pipeline("stop", path)
        code, output = running.end()
    assert (stopped.exit_code, stopped.stdout) == (0, "work: stopped\n")
    (summary,) = json.loads(output)
    assert (code, summary["state"]) == (0, "stopped")
    commits = {name for name in os.listdir(tmp_path / "state" / "sink" / "commits") if name.isdigit()}
    begun = {name for name in os.listdir(tmp_path / "state" / "sink" / "offsets") if name.isdigit()}
    assert commits <= begun
    assert len(begun - commits) <= 1, "the current batch was finished, at most the next one was planned"

    (rest,) = supervise(spark, [path], bootstrap, once=True)
    assert summary["queries"][0]["records_out"] + rest.runs[0].metrics.records_out == 500
    assert sorted(row["n"] for row in received(bootstrap, "work-out")) == list(range(500))
    assert pipeline("stop", path).stdout == "work: not running\n"


def test_reset_starts_again_from_the_given_position(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "again", "again-out")
    send(bootstrap, "again", [{"n": n} for n in range(3)])
    path = tmp_path / "again.yaml"
    path.write_text(LIVE.format(topic="again"))
    assert len(supervise(spark, [path], bootstrap, once=True)[0].runs) == 1
    assert pipeline("reset", path).exit_code == 2, "no terminal to confirm, and no --yes"
    result = pipeline("reset", path, "--yes")
    assert result.stdout == f"again: deleted the checkpoint {tmp_path / 'state'}\n"
    supervise(spark, [path], bootstrap, once=True)
    assert sorted(row["n"] for row in received(bootstrap, "again-out")) == [0, 0, 1, 1, 2, 2]
    assert pipeline("reset", path, "--yes", "--start", "latest").exit_code == 0
    assert supervise(spark, [path], bootstrap, once=True)[0].runs[0].metrics.records_in == 0
    assert (
        "invalid start 'x'"
        in CliRunner().invoke(cli, ["pipeline", "reset", str(path), "--start", "x"]).stderr
    )


def test_pipelines_with_conflicting_settings_cannot_share_a_spark(tmp_path: Path) -> None:
    from ruslo.pipeline.files.load import load_pipeline
    from ruslo.pipeline.runner.spark_settings import shared_settings

    pipelines = []
    for name, memory in (("a", "1g"), ("b", "2g")):
        path = tmp_path / f"{name}.yaml"
        path.write_text(
            LIVE.format(topic=name) + f"resources: {{driver_memory: {memory}, shuffle_partitions: 2}}\n"
        )
        pipelines.append(load_pipeline(path).valid())
    with pytest.raises(ConfigError, match=r"a sets spark.driver.memory=1g and b sets 2g"):
        shared_settings(pipelines, {})
    assert shared_settings(pipelines, {"spark.driver.memory": "3g"})["spark.driver.memory"] == "3g"
