"""Writing topics from Spark: rows become records, and batches are repeated."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.client.admin.admin import Admin
from ruslo.client.wire.raw import RawClient
from ruslo.model.topics import TopicPartition
from ruslo.records.compression import Codec
from ruslo.records.reader import iter_batches
from ruslo.testing.embedded import EmbeddedBroker
from tests.pipeline.pipelines import forget_last_commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARTITIONS = 3


@pytest.fixture(scope="module")
def bootstrap(ruslo_broker: EmbeddedBroker) -> str:
    return ruslo_broker.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    return new_topic(bootstrap)


def new_topic(bootstrap: str, **config: str) -> str:
    name = f"sink-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)])[name].result(30)
    return name


def write(rows: DataFrame, bootstrap: str, **options: str) -> None:
    settings = {"kafka.bootstrap.servers": bootstrap, **options}
    rows.write.format("ruslo").options(**settings).mode("append").save()


def records_of(bootstrap: str, topic: str) -> list[Message]:
    """The records that a read_committed consumer reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([ClientPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[Message] = []
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(1000, timeout=0.5):
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
    consumer.close()
    return found


def values_of(bootstrap: str, topic: str) -> Counter[str]:
    return Counter((message.value() or b"").decode() for message in records_of(bootstrap, topic))


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("string(id) AS key", "string(id) AS value")


def test_all_columns_become_parts_of_the_record(spark: SparkSession, bootstrap: str, topic: str) -> None:
    rows = spark.sql(
        """SELECT binary('k') AS key, 'значение' AS value, 2 AS partition,
                  timestamp_millis(1700000000123) AS timestamp,
                  array(struct('a' AS key, binary('1') AS value), struct('b' AS key, binary(null) AS value))
                  AS headers, 'ignored' AS other
           UNION ALL SELECT null, null, 2, timestamp_millis(1700000000124), null, null"""
    )
    write(rows.coalesce(1), bootstrap, topic=topic)
    first, second = records_of(bootstrap, topic)
    assert (first.key(), first.value(), first.partition()) == (b"k", "значение".encode(), 2)
    assert first.timestamp()[1] == 1700000000123
    assert first.headers() == [("a", b"1"), ("b", None)]
    assert (second.key(), second.value(), second.headers()) == (None, None, None)


def test_keys_go_to_the_same_partitions_as_with_other_producers(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    write(numbers(spark, 300), bootstrap, topic=topic)
    ours = {message.key(): message.partition() for message in records_of(bootstrap, topic)}
    other = new_topic(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in ours:
        producer.produce(other, key=key, value=b"")
    assert producer.flush(30) == 0
    assert ours == {message.key(): message.partition() for message in records_of(bootstrap, other)}
    assert len(ours) == 300


def test_the_topic_column_selects_the_topic(spark: SparkSession, bootstrap: str, topic: str) -> None:
    other = new_topic(bootstrap)
    rows = spark.createDataFrame([(topic, "1"), (other, "2"), (topic, "3")], "topic string, value string")
    write(rows, bootstrap)
    assert values_of(bootstrap, topic) == Counter(["1", "3"])
    assert values_of(bootstrap, other) == Counter(["2"])


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_batches_are_compressed(spark: SparkSession, bootstrap: str, topic: str, delivery: str) -> None:
    write(numbers(spark, 1000), bootstrap, topic=topic, delivery=delivery, compression="zstd")
    assert values_of(bootstrap, topic) == Counter(str(number) for number in range(1000))

    async def codecs() -> set[int]:
        async with Admin(bootstrap) as admin:
            partitions = {TopicPartition(topic, number): 0 for number in range(PARTITIONS)}
            fetched = await RawClient(admin.cluster).fetch(partitions)
        return {
            header.codec
            for batches in fetched.values()
            for _, header in iter_batches(bytes(batches.records))
            if not header.is_control
        }

    assert asyncio.run(codecs()) == {Codec.ZSTD}


def test_large_results_are_staged_in_files_which_are_removed(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    staging = tmp_path / "staging"
    options = {"stagingPath": str(staging), "stagingMemory": "1k", "kafka.batch.size": "2000"}
    write(numbers(spark, 5000), bootstrap, topic=topic, **options)
    assert values_of(bootstrap, topic) == Counter(str(number) for number in range(5000))
    assert [path.name for path in staging.iterdir()] == [".ruslo-staging"]


def test_a_failed_job_leaves_no_records(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Even the records of a task that finished before another one failed are not committed."""
    bad_at_the_end = "if(value = '49999', raise_error('the last row is bad'), value) AS value"
    rows = (
        numbers(spark, 500, 1).selectExpr("value").union(numbers(spark, 50_000, 1).selectExpr(bad_at_the_end))
    )
    with pytest.raises(Exception, match="the last row is bad"):
        write(rows, bootstrap, topic=topic, stagingPath=str(tmp_path / "staging"), stagingMemory="1k")
    assert values_of(bootstrap, topic) == Counter()
    assert not list((tmp_path / "staging").rglob("*.batches"))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("string(id) AS key", {}, "the column 'value' is missing"),
        ("id AS value", {}, "column 'value' is bigint"),
        ("'v' AS value", {"topic": "a b"}, "topic=a b"),
        ("'v' AS value, 7 AS partition", {}, "names partition 7 .* which has 3"),
        ("'v' AS value", {"compresion": "lz4"}, "Did you mean 'compression'"),
        ("repeat('v', 5000) AS value", {}, "lower option kafka.batch.size"),
    ],
)
def test_errors_name_the_reason(
    spark: SparkSession, bootstrap: str, columns: str, options: dict[str, str], message: str
) -> None:
    topic = new_topic(bootstrap, **{"max.message.bytes": "4000"})
    with pytest.raises(Exception, match=message):
        write(spark.sql(f"SELECT {columns} FROM range(1)"), bootstrap, **{"topic": topic, **options})


def test_a_topic_is_not_overwritten(spark: SparkSession, bootstrap: str, topic: str) -> None:
    writer = numbers(spark, 1).write.format("ruslo").option("kafka.bootstrap.servers", bootstrap)
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        writer.option("topic", topic).mode("overwrite").save()


class Copy:
    """A stream that copies a topic with numbers to another topic."""

    def __init__(self, spark: SparkSession, bootstrap: str, target: str, checkpoint: Path) -> None:
        self.source = new_topic(bootstrap)
        self._spark = spark
        self._bootstrap = bootstrap
        self._target = target
        self.checkpoint = checkpoint
        write(numbers(spark, 100), bootstrap, topic=self.source)

    def rows(self, **options: str) -> DataFrame:
        settings = {
            "kafka.bootstrap.servers": self._bootstrap,
            "subscribe": self.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "60",
            **options,
        }
        return self._spark.readStream.format("ruslo").options(**settings).load().select("key", "value")

    def run(self, **options: str) -> StreamingQuery:
        settings = {"kafka.bootstrap.servers": self._bootstrap, "topic": self._target, **options}
        return self.finish(self.rows().writeStream.format("ruslo").options(**settings))

    def finish(self, writer: DataStreamWriter) -> StreamingQuery:
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return query


ALL = Counter(str(number) for number in range(100))


def test_a_repeated_batch_is_not_written_again(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    copy = Copy(spark, bootstrap, topic, tmp_path / "checkpoint")
    copy.run()
    assert values_of(bootstrap, topic) == ALL
    forget_last_commit(copy.checkpoint)
    again = copy.run()
    assert again.lastProgress is not None
    assert again.lastProgress["numInputRows"] > 0, "Spark has repeated a batch"
    assert values_of(bootstrap, topic) == ALL


def test_at_least_once_writes_a_repeated_batch_again(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    copy = Copy(spark, bootstrap, topic, tmp_path / "checkpoint")
    copy.run(delivery="at_least_once")
    assert values_of(bootstrap, topic) == ALL
    forget_last_commit(copy.checkpoint)
    copy.run(delivery="at_least_once")
    repeated = values_of(bootstrap, topic)
    assert set(repeated) == set(ALL)
    assert set(repeated.values()) == {1, 2}


def test_a_new_checkpoint_writes_everything_again(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Its batch ids equal those of written batches, but the query id differs."""
    copy = Copy(spark, bootstrap, topic, tmp_path / "one")
    copy.run()
    copy.checkpoint = tmp_path / "other"
    copy.run()
    assert values_of(bootstrap, topic) == ALL + ALL


def test_named_writes_in_foreach_batch_are_exactly_once(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Names separate the sinks of a batch; a repeated write of the same name is skipped."""
    copy = Copy(spark, bootstrap, topic, tmp_path / "checkpoint")

    def save(rows: DataFrame, batch_id: int) -> None:
        for name in ("one", "other", "one"):
            write(rows, bootstrap, topic=topic, sinkName=name)

    copy.finish(copy.rows().writeStream.foreachBatch(save))
    assert values_of(bootstrap, topic) == ALL + ALL


def test_progress_is_published_as_a_consumer_group(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    copy = Copy(spark, bootstrap, "unused", tmp_path / "checkpoint")
    group = f"group-{uuid.uuid4().hex[:8]}"
    rows = copy.rows(**{"group.id": group})
    copy.finish(rows.writeStream.format("noop"))
    wait_for_listeners(spark)
    command = [sys.executable, "-m", "ruslo.cli", "group", "describe", group, "-o", "json"]
    result = subprocess.run(
        [*command, "--bootstrap-server", bootstrap], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    (described,) = json.loads(result.stdout)
    assert {(row["topic"], row["partition"], row["lag"]) for row in described["partitions"]} == {
        (copy.source, number, 0) for number in range(PARTITIONS)
    }


def wait_for_listeners(spark: SparkSession) -> None:
    """Listeners receive the last progress shortly after the query has ended."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
