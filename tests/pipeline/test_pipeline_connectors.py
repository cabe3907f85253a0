"""Connectors: files, databases and other Spark formats, to and from topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ruslo.cli.main import cli
from ruslo.model.errors import ConfigError
from ruslo.testing import EmbeddedBroker
from tests.pipeline.pipelines import create, example, received, send, supervise
from tests.support.checks.cli_checks import Cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_of_several_formats_become_records(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "from-csv", "from-text", "imported-orders")
    (orders,) = example(tmp_path, "files_to_topic.yaml")
    write(tmp_path / "incoming" / "1.json", '{"id": 1, "customer": "ann", "amount": 2.5}\n{"id": 2}\n')
    write(tmp_path / "csv" / "1.csv", "id,name\n1,tea\n2,bread\n")
    write(tmp_path / "text" / "1.txt", "one line\nanother\n")
    csv = write(
        tmp_path / "csv.yaml",
        "source: {type: files, format: csv, path: csv, schema: 'id INT, name STRING', "
        "options: {header: true}}\n"
        "sink: {type: topic, topic: from-csv, key: id}\ncheckpoint: c/csv\n",
    )
    text = write(
        tmp_path / "text.yaml",
        "source: {type: files, format: text, path: text}\n"
        "sink: {type: topic, topic: from-text, value_column: value}\ncheckpoint: c/text\n",
    )
    supervise(spark, [orders, csv, text], bootstrap, once=True)
    # The next run reads only the new file.
    write(tmp_path / "incoming" / "2.json", '{"id": 3, "customer": "bob", "amount": 1}\n')
    supervise(spark, [orders], bootstrap, once=True)
    assert sorted(row["id"] for row in received(bootstrap, "imported-orders")) == [1, 2, 3]
    assert sorted(row["name"] for row in received(bootstrap, "from-csv")) == ["bread", "tea"]
    lines = Cli(bootstrap).lines("consume", "from-text", "--exit")
    assert sorted(line["value"] for line in lines) == ["another", "one line"]
    keys = {line["key"] for line in Cli(bootstrap).lines("consume", "from-csv", "--exit")}
    assert keys == {"1", "2"}


def test_topic_becomes_parquet_exactly_once_and_a_new_checkpoint_loses_nothing(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "orders")
    (path,) = example(tmp_path, "topic_to_files.yaml")
    for begin in (0, 50):
        send(bootstrap, "orders", [{"id": n, "customer": "c", "amount": n} for n in range(begin, begin + 50)])
        supervise(spark, [path], bootstrap, once=True)
    archive = tmp_path / "archive"
    assert sorted(row.id for row in spark.read.parquet(str(archive)).select("id").collect()) == list(
        range(100)
    )
    assert [entry.name for entry in archive.glob("day=*")] != []

    rejected = CliRunner().invoke(cli, ["pipeline", "reset", str(path), "--yes"])
    assert (rejected.exit_code, "--outputs delete" in rejected.stderr) == (1, True)
    kept = CliRunner().invoke(cli, ["pipeline", "reset", str(path), "--yes", "--outputs", "delete"])
    assert kept.exit_code == 0, kept.output
    assert not archive.exists()
    supervise(spark, [path], bootstrap, once=True)
    assert spark.read.parquet(str(archive)).count() == 100

    # The checkpoint was removed by hand: Spark would skip the first batches silently.
    (tmp_path / "checkpoints" / "topic-to-files").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="the checkpoint of topic-to-files is new, but"):
        supervise(spark, [path], bootstrap, once=True)


def test_a_database_as_source_and_sink(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "people", "visits", "seen")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    url = f"jdbc:derby:{tmp_path / 'db'}"
    connection = f"url: '{url};create=true', driver: org.apache.derby.iapi.jdbc.AutoloadedDriver"
    send(bootstrap, "people", [{"id": n, "name": f"n{n}"} for n in range(5)])
    send(bootstrap, "visits", [{"person": n % 7} for n in range(14)])
    into = write(
        tmp_path / "into.yaml",
        "source: {type: topic, topic: people, schema: 'id INT, name STRING'}\n"
        "steps: [{name: rows, sql: 'SELECT id, name FROM source'}]\n"
        f"sink: {{type: jdbc, table: people, {connection}}}\ncheckpoint: c/into\n",
    )
    out_of = write(
        tmp_path / "out.yaml",
        "sources:\n"
        "  visits: {type: topic, topic: visits, schema: person INT}\n"
        f"  people: {{type: jdbc, table: people, {connection}}}\n"
        "steps: [{name: seen, sql: 'SELECT name FROM visits v JOIN people p ON v.person = p.id'}]\n"
        "sink: {type: topic, topic: seen}\ncheckpoint: c/out\n",
    )
    (run,) = supervise(spark, [into], bootstrap, once=True)
    assert run.runs[0].metrics.records_out == 5
    supervise(spark, [out_of], bootstrap, once=True)
    names = [next(iter(row.values())) for row in received(bootstrap, "seen")]
    assert sorted(names) == sorted([f"n{n}" for n in range(5)] * 2)


def test_a_batch_pipeline_and_a_pipeline_with_several_sinks(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    create(bootstrap, "stored", "small", "large")
    spark.range(10).selectExpr("id AS n").write.parquet(str(tmp_path / "numbers"))
    batch = write(
        tmp_path / "batch.yaml",
        "source: {type: spark, format: parquet, path: numbers}\n"
        "steps: [{name: doubled, sql: 'SELECT n * 2 AS n FROM source'}]\n"
        "sink: {type: topic, topic: stored, key: n}\n",
    )
    (run,) = supervise(spark, [batch], bootstrap)
    assert (run.state, run.runs[0].metrics.records_out) == ("finished", 10)
    split = write(
        tmp_path / "split.yaml",
        "source: {type: topic, topic: stored, schema: n INT}\n"
        "steps:\n"
        "  - {name: low, sql: 'SELECT n FROM source WHERE n < 10'}\n"
        "  - {name: high, sql: 'SELECT n FROM source WHERE n >= 10'}\n"
        "sinks:\n"
        "  low_ones: {type: topic, topic: small, from: low}\n"
        "  high_ones: {type: topic, topic: large, from: high}\n"
        "  shown: {type: console, from: high}\n"
        "checkpoint: c/split\n",
    )
    supervise(spark, [split], bootstrap, once=True)
    assert sorted(row["n"] for row in received(bootstrap, "small")) == [0, 2, 4, 6, 8]
    assert sorted(row["n"] for row in received(bootstrap, "large")) == [10, 12, 14, 16, 18]
    status = CliRunner().invoke(cli, ["pipeline", "status", str(split), "-o", "json"])
    queries = json.loads(status.stdout)[0]["queries"]
    assert {query["sink"]: query["records_out"] for query in queries} == {
        "low_ones": 5,
        "high_ones": 5,
        "shown": 5,
    }
