"""Sources of pipelines: Avro, segment files, watched folders."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from ruslo.pipeline.runner.pipeline_run import PipelineRun
from ruslo.testing import EmbeddedBroker
from tests.pipeline.pipelines import create, received, send, supervise
from tests.pipeline.source_topics import new_topic, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": ["null", "string"]}],
}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


def avro(value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, AVRO, value)
    return stream.getvalue()


def test_avro_values(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "avro-out")
    topic = new_topic(bootstrap, name="avro-in")
    rows = [{"id": n, "customer": None if n % 3 else f"c{n}"} for n in range(30)]
    produce(bootstrap, topic, [avro(row) for row in rows])
    path = tmp_path / "avro.yaml"
    path.write_text(
        f"source: {{type: topic, topic: avro-in, value: avro, avro_schema: '{json.dumps(AVRO)}'}}\n"
        "steps: [{name: plain, sql: 'SELECT id, customer, _offset AS at FROM source'}]\n"
        "sink: {type: topic, topic: avro-out, key: id}\ncheckpoint: state\n"
    )
    supervise(spark, [path], bootstrap, once=True)
    found = sorted(received(bootstrap, "avro-out"), key=lambda row: row["id"])
    assert found == [row | {"at": row["id"]} for row in rows]


def test_history_from_segment_files_then_live(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "on-disk", "from-disk")
    send(bootstrap, "on-disk", [{"n": n} for n in range(2000)], key="n")
    path = tmp_path / "direct.yaml"
    path.write_text(
        "source: {type: topic, topic: on-disk, schema: n INT, scan: direct, max_records_per_batch: 900}\n"
        "steps: [{name: plain, sql: 'SELECT n FROM source'}]\n"
        "sink: {type: topic, topic: from-disk, key: n}\ncheckpoint: state\ntrigger: 100ms\n"
    )
    sent = False

    def watch(runs: Sequence[PipelineRun]) -> None:
        nonlocal sent
        records_in = runs[0].runs[0].metrics.records_in
        if records_in == 2000 and not sent:
            send(bootstrap, "on-disk", [{"n": n} for n in range(2000, 2010)], key="n")
            sent = True
        if records_in == 2010:
            runs[0].folder.request_stop()

    supervise(spark, [path], bootstrap, watch=watch)
    assert sorted(row["n"] for row in received(bootstrap, "from-disk")) == list(range(2010))


def test_a_folder_of_parquet_is_watched(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create(bootstrap, "from-parquet")
    folder = tmp_path / "incoming"
    folder.mkdir()

    def put(name: str, first: int, last: int) -> None:
        """Write the file elsewhere, then move it into the folder, as the docs require."""
        elsewhere = tmp_path / f"{name}.d"
        spark.range(first, last).selectExpr("id AS n").coalesce(1).write.parquet(str(elsewhere))
        (written,) = elsewhere.glob("*.parquet")
        written.rename(folder / f"{name}.parquet")

    put("first", 0, 10)
    path = tmp_path / "parquet.yaml"
    path.write_text(
        "source: {type: files, format: parquet, path: incoming, schema: n BIGINT}\n"
        "sink: {type: topic, topic: from-parquet, key: n}\ncheckpoint: state\ntrigger: 100ms\n"
    )

    def watch(runs: Sequence[PipelineRun]) -> None:
        records_in = runs[0].runs[0].metrics.records_in
        if records_in == 10 and not (folder / "second.parquet").exists():
            put("second", 10, 25)
        if records_in == 25:
            runs[0].folder.request_stop()

    supervise(spark, [path], bootstrap, watch=watch)
    assert sorted(row["n"] for row in received(bootstrap, "from-parquet")) == list(range(25))
