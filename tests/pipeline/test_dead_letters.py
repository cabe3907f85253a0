"""Dead letters of a pipeline whose batches are repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ruslo.testing import EmbeddedBroker
from tests.pipeline.pipelines import create, forget_last_commit, received, send, supervise
from tests.support.checks.cli_checks import Cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """\
source: {{name: numbers, type: topic, topic: {topic}, schema: n INT}}
steps:
  - {{name: rows, sql: "{sql}"}}
sink: {{type: topic, topic: {topic}-out, key: n, mode: {mode}, delivery: {delivery}}}
dead_letters: {topic}-dead
checkpoint: state
"""
PLAIN = "SELECT n FROM numbers"
COUNTED = "SELECT n, count(*) AS times FROM numbers GROUP BY n"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


@pytest.mark.parametrize(
    ("topic", "mode", "sql", "delivery", "dead_letters"),
    [
        ("once", "append", PLAIN, "exactly_once", ["{bad"]),
        ("counted", "update", COUNTED, "exactly_once", ["{bad"]),
        # This case shows that the others can fail.
        ("twice", "append", PLAIN, "at_least_once", ["{bad", "{bad"]),
    ],
)
def test_a_repeated_batch_sends_its_dead_letters_once_if_the_sink_is_exactly_once(
    spark: SparkSession,
    bootstrap: str,
    tmp_path: Path,
    topic: str,
    mode: str,
    sql: str,
    delivery: str,
    dead_letters: list[str],
) -> None:
    create(bootstrap, topic, f"{topic}-out", f"{topic}-dead")
    send(bootstrap, topic, [{"n": 1}, {"n": 2}])
    send(bootstrap, topic, ["{bad"])
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE.format(topic=topic, mode=mode, sql=sql, delivery=delivery))
    (first,) = supervise(spark, [path], bootstrap, once=True)
    assert first.dead_letters == 1, "control records are not counted"
    forget_last_commit(tmp_path / "state" / "sink")
    (again,) = supervise(spark, [path], bootstrap, once=True)
    assert again.runs[0].metrics.batches >= 1, "the batch was repeated"
    found = Cli(bootstrap).lines("consume", f"{topic}-dead", "--exit", "-X", "isolation.level=read_committed")
    assert [line["value"] for line in found] == dead_letters
    rows = sorted(row["n"] for row in received(bootstrap, f"{topic}-out"))
    assert rows == ([1, 2] if delivery == "exactly_once" else [1, 1, 2, 2])
    assert not list((tmp_path / "state" / ".staging").rglob("*.batches")), "staged files are removed"
