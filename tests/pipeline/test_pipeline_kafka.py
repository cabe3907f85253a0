"""The same pipeline files with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.pipelines import create, example, received, send, supervise
from tests.support.brokers.kafka import ApacheKafka
from tests.support.checks.cli_checks import Cli
from tests.support.tools.programs import require_tool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_tool("java")
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as node:
        yield node.bootstrap


def test_source_table_sink_dead_letters_and_group(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "orders", "customers", "paid-orders", "named-orders", "orders.dead")
    orders = [
        {"id": n, "shop": "de-1", "status": "paid" if n % 2 else "open", "amount": n, "customer": "c1"}
        for n in range(20)
    ]
    send(bootstrap, "orders", orders, key="id")
    send(bootstrap, "orders", ["{broken"])
    send(bootstrap, "customers", [{"id": "c1", "name": "Ann"}], key="id")
    paths = example(tmp_path, "filter_and_enrich.yaml", "join_with_table.yaml")
    text = paths[1].read_text() + "dead_letters: orders.dead\n"
    paths[1].write_text(text)
    for _ in range(2):  # The second run has no new records.
        supervise(spark, paths, bootstrap, once=True)
    assert sorted(row["id"] for row in received(bootstrap, "paid-orders")) == list(range(1, 20, 2))
    assert {row["name"] for row in received(bootstrap, "named-orders")} == {"Ann"}
    dead = Cli(bootstrap).lines("consume", "orders.dead", "--exit")
    assert [line["value"] for line in dead] == ["{broken"] * 2, "one from each pipeline"
    group = Cli(bootstrap).json("group", "describe", "filter-and-enrich")
    assert "'lag': 0" in str(group)
