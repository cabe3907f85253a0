"""Spark queries over ``format("ruslo")``: batch and streaming, formats, undecodable records, Apache Kafka."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException

from ruslo.records.batch import HEADER_SIZE
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.record import Record
from ruslo.testing import EmbeddedBroker
from tests.pipeline.source_topics import NOW, new_topic, produce, produce_raw, read
from tests.support.brokers.kafka import ApacheKafka
from tests.support.tools.programs import require_tool
from tests.support.txns.transactional_clients import new_transactional

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDER_DDL = "id BIGINT, item STRUCT<name: STRING, prices: ARRAY<DECIMAL(8, 2)>>"
GOOD = b'{"id": 1, "item": {"name": "tea", "prices": [1.5]}}'


@pytest.fixture(scope="module")
def bootstrap(ruslo_broker: EmbeddedBroker) -> str:
    return ruslo_broker.bootstrap


def rows_scanned(rows: DataFrame) -> int:
    """Read all rows; return how many the source passed to Spark."""
    rows.collect()
    leaves = rows._jdf.queryExecution().executedPlan().collectLeaves()
    return int(leaves.apply(0).metrics().apply("numOutputRows").value())


def frame(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return spark.read.format("ruslo").options(**{"kafka.bootstrap.servers": bootstrap, **options}).load()


def stream(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    settings = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
    return spark.readStream.format("ruslo").options(**settings).load()


class TestBatchQueries:
    def test_columns_of_every_type(self, spark: SparkSession, bootstrap: str) -> None:
        topic = new_topic(bootstrap, 2)
        produce(bootstrap, topic, [b"v", None], 1, key=b"k", headers=(("h", b"1"),))
        rows = frame(spark, bootstrap, subscribe=topic, includeHeaders="true").orderBy("offset").collect()
        first = rows[0].asDict(recursive=True)
        assert round(first.pop("timestamp").timestamp() * 1000) == NOW
        assert first == {
            "key": b"k",
            "value": b"v",
            "topic": topic,
            "partition": 1,
            "offset": 0,
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"1"}],
        }
        assert rows[1]["value"] is None

    def test_many_tasks_read_each_record_once(self, spark: SparkSession, bootstrap: str) -> None:
        topic = new_topic(bootstrap, 3)
        for partition in range(3):
            produce(bootstrap, topic, [b"%d" % n for n in range(5000)], partition, per_batch=1000)
        rows = frame(spark, bootstrap, subscribe=topic, minPartitions="6", columns="value,offset")
        assert rows.rdd.getNumPartitions() >= 6
        assert rows.selectExpr("count(*)", "sum(int(string(value)))", "max(offset)").first() == (
            15_000,
            3 * sum(range(5000)),
            4999,
        )

    def test_an_empty_topic_has_no_rows(self, spark: SparkSession, bootstrap: str) -> None:
        assert frame(spark, bootstrap, subscribe=new_topic(bootstrap)).count() == 0

    def test_filters_reduce_what_is_read(self, spark: SparkSession, bootstrap: str) -> None:
        topic = new_topic(bootstrap, 2)
        for partition in range(2):
            produce(bootstrap, topic, [b"%d" % n for n in range(1000)], partition)
        rows = frame(spark, bootstrap, subscribe=topic, pushFilters="true")
        moment = f"timestamp_millis({NOW + 995})"
        late = rows.where(f"timestamp >= {moment} and partition = 1 and offset < 998")
        assert sorted(row["offset"] for row in late.collect()) == [995, 996, 997]
        assert rows_scanned(late) == 3, "the source filters all other rows"
        assert rows.where("offset > 997").count() == 4
        assert rows.where("topic = 'other'").count() == 0
        unpushed = frame(spark, bootstrap, subscribe=topic).where("offset > 997")
        assert (unpushed.count(), rows_scanned(unpushed)) == (4, 2000)

    def test_errors_are_reported_before_anything_is_read(self, spark: SparkSession, bootstrap: str) -> None:
        with pytest.raises(AnalysisException, match="Did you mean 'subscribe'"):
            frame(spark, bootstrap, subscribed="t")
        with pytest.raises(AnalysisException, match="nowhere does not exist"):
            frame(spark, bootstrap, subscribe="nowhere").count()
        with pytest.raises(AnalysisException, match="connection refused"):
            frame(spark, "127.0.0.1:1", subscribe="t").count()


class TestFormats:
    def test_text_and_json(self, spark: SparkSession, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [GOOD, None], key="schlüssel".encode())
        options = {"keyFormat": "string", "valueFormat": "json", "valueSchema": ORDER_DDL}
        rows = frame(spark, bootstrap, subscribe=topic, **options)
        found = rows.select("key", "value.id", "value.item.name", "value.item.prices").collect()
        assert [(row[0], row[1], row[2], row[3] and [str(p) for p in row[3]]) for row in found] == [
            ("schlüssel", 1, "tea", ["1.50"]),
            ("schlüssel", None, None, None),
        ]

    def test_avro(self, spark: SparkSession, bootstrap: str) -> None:
        schema = {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
        }
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"id": 7, "note": "fragile"})
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [out.getvalue()])
        options = {"valueFormat": "avro", "valueSchema": json.dumps(schema)}
        (row,) = frame(spark, bootstrap, subscribe=topic, **options).select("value.*").collect()
        assert row.asDict() == {"id": 7, "note": "fragile"}


class TestUndecodableRecords:
    @pytest.fixture(scope="class")
    @classmethod
    def topic(cls, bootstrap: str) -> str:
        topic = new_topic(bootstrap, 2)
        values = [GOOD, b"junk", b'{"id": "x"}', GOOD]
        produce(bootstrap, topic, values, 1, key=b"k", headers=(("trace", b"\x01"),))
        return topic

    def json_rows(self, spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
        settings = {"valueFormat": "json", "valueSchema": ORDER_DDL, **options}
        return frame(spark, bootstrap, subscribe=topic, **settings)

    def test_fail(self, spark: SparkSession, bootstrap: str, topic: str) -> None:
        with pytest.raises(PythonException, match=f"{topic}-1 offset 1 cannot be decoded: value: not JSON"):
            self.json_rows(spark, bootstrap, topic).collect()

    def test_drop_logs_a_count(self, spark: SparkSession, bootstrap: str, topic: str) -> None:
        spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
        try:
            rows = self.json_rows(spark, bootstrap, topic, onDecodeError="drop").collect()
            assert sorted(row["offset"] for row in rows) == [0, 3]
            logged = [row["msg"] for row in spark.tvf.python_worker_logs().select("msg").collect()]
        finally:
            spark.conf.unset("spark.sql.pyspark.worker.logging.enabled")
        expected = f"2 records could not be decoded and were dropped ({topic}-1: 2)"
        assert any(expected in line for line in logged), logged

    def test_column(self, spark: SparkSession, bootstrap: str, topic: str) -> None:
        rows = self.json_rows(spark, bootstrap, topic, onDecodeError="column").orderBy("offset").collect()
        assert [row["value"] is None for row in rows] == [False, True, True, False]
        assert rows[0]["decodeError"] is None
        error = rows[2]["decodeError"]
        assert error["reason"].startswith("value: id: a whole number of 64 bits")
        assert (error["key"], error["value"]) == (b"k", b'{"id": "x"}')

    def test_dead_letters(self, spark: SparkSession, bootstrap: str, topic: str) -> None:
        dead_letter_topic = new_topic(bootstrap)
        options = {"onDecodeError": "deadletter", "deadLetterTopic": dead_letter_topic}
        rows = self.json_rows(spark, bootstrap, topic, **options).collect()
        assert sorted(row["offset"] for row in rows) == [0, 3]
        found = read(bootstrap, subscribe=dead_letter_topic, includeHeaders="true")
        assert [(row["key"], row["value"]) for row in found] == [
            (b"k", b"junk"),
            (b"k", b'{"id": "x"}'),
        ]
        headers = {header["key"]: header["value"] for header in found[0]["headers"]}
        assert headers.pop("ruslo.error.reason").startswith(b"value: not JSON")
        assert headers == {
            "trace": b"\x01",
            "ruslo.source.topic": topic.encode(),
            "ruslo.source.partition": b"1",
            "ruslo.source.offset": b"1",
        }

    def test_a_dead_letter_topic_must_exist(self, spark: SparkSession, bootstrap: str, topic: str) -> None:
        options = {"onDecodeError": "deadletter", "deadLetterTopic": "nowhere"}
        with pytest.raises(AnalysisException, match="deadLetterTopic nowhere does not exist: create it"):
            self.json_rows(spark, bootstrap, topic, **options).collect()

    def test_malformed_batches_fail_a_query_but_not_the_workers(
        self, spark: SparkSession, bootstrap: str
    ) -> None:
        topic = new_topic(bootstrap)
        batch = build_batch([Record(0, NOW, b"k", b"v" * 50)])
        batch[HEADER_SIZE:] = b"\xff" * (len(batch) - HEADER_SIZE)
        set_crc(batch)
        produce_raw(bootstrap, topic, [batch])
        with pytest.raises(PythonException, match="record 0 in the batch at offset 0"):
            frame(spark, bootstrap, subscribe=topic).count()
        good = new_topic(bootstrap)
        produce(bootstrap, good, [b"v"])
        assert frame(spark, bootstrap, subscribe=good).count() == 1


class TestStreamingQueries:
    def run_available(self, rows: DataFrame, table: str, checkpoint: Path) -> list[Any]:
        query = (
            rows.writeStream.format("parquet")
            .option("path", str(checkpoint / "out"))
            .option("checkpointLocation", str(checkpoint / table))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return list(query.recentProgress)

    def test_available_now_twice(self, spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
        topic = new_topic(bootstrap, 2)
        produce(bootstrap, topic, [b"1-%d" % n for n in range(50)], 0)
        rows = stream(spark, bootstrap, subscribe=topic, maxOffsetsPerTrigger="20")
        progress = self.run_available(rows, "q", tmp_path)
        assert [batch["numInputRows"] for batch in progress if batch["numInputRows"]] == [20, 20, 10]
        produce(bootstrap, topic, [b"2-%d" % n for n in range(7)], 1)
        self.run_available(rows, "q", tmp_path)
        found = spark.read.parquet(str(tmp_path / "out")).select("value").collect()
        expected = [b"1-%d" % n for n in range(50)] + [b"2-%d" % n for n in range(7)]
        assert sorted(bytes(row["value"]) for row in found) == sorted(expected)

    def test_processing_time(self, spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
        topic = new_topic(bootstrap)
        query = (
            stream(spark, bootstrap, subscribe=topic)
            .writeStream.format("memory")
            .queryName("live")
            .option("checkpointLocation", str(tmp_path))
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            for number in range(3):
                produce(bootstrap, topic, [b"%d" % number] * 10)
                query.processAllAvailable()
                assert spark.table("live").count() == 10 * (number + 1)
        finally:
            query.stop()

    def test_data_loss_fails_the_query(self, spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
        from tests.pipeline.source_topics import delete_topic

        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"v"])
        rows = stream(spark, bootstrap, subscribe=topic)
        self.run_available(rows, "q", tmp_path)
        delete_topic(bootstrap, topic)
        new_topic(bootstrap, name=topic)
        with pytest.raises(StreamingQueryException, match="was deleted and recreated"):
            self.run_available(rows, "q", tmp_path)


class TestApacheKafka:
    @pytest.fixture(scope="class")
    @classmethod
    def kafka(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
        require_tool("java")
        node = ApacheKafka(tmp_path_factory.mktemp("kafka"))
        try:
            node.start()
            yield node
        finally:
            node.kill()

    def test_fetched_and_direct_scans_are_equal(self, spark: SparkSession, kafka: ApacheKafka) -> None:
        topic = new_topic(kafka.bootstrap, 2, segment_bytes="1048576")
        for partition in range(2):
            values = [b"%d" % n + bytes(3000) for n in range(600)]
            produce(kafka.bootstrap, topic, values, partition, key=b"k", per_batch=20, codec=partition * 4)
        producer = new_transactional(kafka.bootstrap, "spark")
        for outcome in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce(topic, outcome.__name__.encode(), partition=0)
            producer.flush()
            outcome()
        wire = frame(spark, kafka.bootstrap, subscribe=topic, includeHeaders="true")
        direct = frame(spark, kafka.bootstrap, subscribe=topic, includeHeaders="true", scan="direct")
        assert wire.count() == 1201
        assert wire.exceptAll(direct).count() == 0
        assert direct.count() == 1201
        short = wire.where("length(value) < 100").collect()
        assert [bytes(row["value"]) for row in short] == [b"commit_transaction"]
