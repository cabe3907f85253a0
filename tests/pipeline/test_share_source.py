"""The source as a member of a share group, with Ruslo, and with Apache Kafka under ``--target=kafka``."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ruslo.client.share.share_consumer import ShareConsumer
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.pipeline.client_properties import ClientProperties
from ruslo.pipeline.source.share.lock_holder import AcquiredRecords, LockHolder
from ruslo.pipeline.source.share.plan import SharePlan
from tests.pipeline.chaos import SOURCE, TARGET, Chaos, make_topics, read_committed
from tests.pipeline.pipelines import received, supervise
from tests.support.brokers.node import Node
from tests.support.share.share_node import (
    LOCK_MS,
    new_share_group,
    new_share_node,
    new_topic,
    send,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with new_share_node(tmp_path_factory.mktemp("node"), request.config.getoption("--target")) as node:
        yield node


@pytest.fixture(scope="module")
def bootstrap(node: Node) -> str:
    return node.bootstrap


# -- locks


@asynccontextmanager
async def holder(bootstrap: str, group: str, topic: str) -> AsyncIterator[LockHolder]:
    member = LockHolder(ClientProperties(bootstrap), group, [topic])
    try:
        yield member
    finally:
        await member.stop(AcknowledgeType.RELEASE)


async def prepared(bootstrap: str, values: str) -> tuple[str, str]:
    """A topic with these values, and a group."""
    topic = await asyncio.to_thread(new_topic, bootstrap)
    await asyncio.to_thread(send, bootstrap, topic, values)
    return topic, await asyncio.to_thread(new_share_group, bootstrap)


async def acquire(member: LockHolder) -> AcquiredRecords:
    return await member.acquire(None, is_last=True)


def count(acquired: AcquiredRecords) -> int:
    return sum(each.last - each.first + 1 for ranges in acquired.records.values() for each in ranges)


async def test_locks_are_renewed_until_the_batch_is_accepted(bootstrap: str) -> None:
    topic, group = await prepared(bootstrap, "abc")
    async with holder(bootstrap, group, topic) as busy, holder(bootstrap, group, topic) as other:
        batch = await acquire(busy)
        assert count(batch) == 3
        deadline = asyncio.get_running_loop().time() + 2 * LOCK_MS / 1000
        while asyncio.get_running_loop().time() < deadline:
            assert count(await acquire(other)) == 0
        await busy.finish(SharePlan(1, batch.records).offsets())
        assert (await acquire(busy)).unaccepted == {}
    async with holder(bootstrap, group, topic) as late:
        assert count(await acquire(late)) == 0


async def test_records_of_a_processed_batch_are_accepted_without_another_delivery(bootstrap: str) -> None:
    topic, group = await prepared(bootstrap, "abc")
    async with holder(bootstrap, group, topic) as killed:
        batch = await acquire(killed)
    async with holder(bootstrap, group, topic) as restarted:
        await restarted.finish(SharePlan(1, batch.records).offsets())
        await asyncio.to_thread(send, bootstrap, topic, "d")
        following = await acquire(restarted)
        assert [(each.first, each.last) for (each,) in following.records.values()] == [(3, 3)]
        assert following.unaccepted == {}
        await restarted.finish(SharePlan(2, following.records).offsets())
    async with holder(bootstrap, group, topic) as late:
        assert count(await acquire(late)) == 0


async def test_an_expired_lock_does_not_keep_others_from_being_accepted(bootstrap: str) -> None:
    topic, group = await prepared(bootstrap, "abc")
    async with holder(bootstrap, group, topic) as member, holder(bootstrap, group, topic) as other:
        first = await acquire(member)
        member._renewal.cancel()
        taken = await acquire(other)
        while not count(taken):
            taken = await acquire(other)
        await asyncio.to_thread(send, bootstrap, topic, "de")
        second = await acquire(member)
        assert (count(first), count(taken), count(second)) == (3, 3, 2)
        (partition,) = first.records
        both = {partition: (*first.records[partition], *second.records[partition])}
        await member.finish(SharePlan(1, both).offsets())
        assert (await acquire(member)).unaccepted == {partition: ((0, 2),)}


# -- queries


def read(spark: SparkSession, bootstrap: str, topic: str, group: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("ruslo").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("share.group.id", group)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def append(rows: DataFrame, output: Path, *, available_now: bool = True) -> StreamingQuery:
    columns = rows.selectExpr("CAST(value AS STRING) AS value", "partition", "offset", "delivery_count")
    writer = columns.writeStream.format("parquet").option("path", str(output / "rows"))
    writer = writer.option("checkpointLocation", str(output / "checkpoint"))
    return (writer.trigger(availableNow=True) if available_now else writer).start()


def run(rows: DataFrame, output: Path) -> None:
    append(rows, output).awaitTermination()


def values(spark: SparkSession, *outputs: Path) -> Counter[str]:
    rows = spark.read.parquet(*(str(output / "rows") for output in outputs)).collect()
    return Counter(row["value"] for row in rows)


def test_rows_are_the_records_of_the_group(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topic, group = new_topic(bootstrap, 2), new_share_group(bootstrap)
    send(bootstrap, topic, map(str, range(100)), partition=0)
    with ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    ) as consumer:
        consumer.subscribe([topic])
        for record in consumer.poll(30):
            if record.offset % 3:
                record.accept()
            else:
                record.release()
    send(bootstrap, topic, map(str, range(100, 150)), partition=1)
    run(read(spark, bootstrap, topic, group, maxOffsetsPerTrigger="40"), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    found = sorted((row["partition"], row["offset"], row["value"], row["delivery_count"]) for row in rows)
    assert found == [
        *((0, number, str(number), 2) for number in range(0, 100, 3)),
        *((1, number - 100, str(number), 1) for number in range(100, 150)),
    ]


def test_a_restart_repeats_no_record(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topic, group = new_topic(bootstrap, 2), new_share_group(bootstrap)
    for batch in range(3):
        send(bootstrap, topic, [f"{batch}-{number}" for number in range(20)])
        run(read(spark, bootstrap, topic, group), tmp_path)
    expected = Counter(f"{batch}-{number}" for batch in range(3) for number in range(20))
    assert values(spark, tmp_path) == expected


def test_queries_of_a_group_share_one_partition(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap)
    outputs = [tmp_path / "first", tmp_path / "second"]
    rows = read(spark, bootstrap, topic, group, maxOffsetsPerTrigger="10")
    queries = [append(rows, output, available_now=False) for output in outputs]
    sent: Counter[str] = Counter()
    try:
        while not all(any(p.numInputRows for p in query.recentProgress) for query in queries):
            assert all(query.exception() is None for query in queries)
            fresh = [f"{len(sent)}-{number}" for number in range(50)]
            send(bootstrap, topic, fresh)
            sent.update(fresh)
    finally:
        for query in queries:
            query.stop()
    # Whatever was not accepted is delivered to the next query.
    run(read(spark, bootstrap, topic, group), tmp_path / "third")
    found = values(spark, *outputs, tmp_path / "third")
    assert found.keys() == sent.keys()


def test_a_pipeline_file_reads_as_a_member(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topic, target, group = new_topic(bootstrap), new_topic(bootstrap), new_share_group(bootstrap)
    send(bootstrap, topic, (f'{{"n": {number}}}' for number in range(20)))
    path = tmp_path / "shared.yaml"
    path.write_text(
        f"source: {{type: topic, topic: {topic}, schema: n INT, share_group: {group}}}\n"
        "steps: [{name: counted, sql: 'SELECT n, _delivery_count AS deliveries FROM source'}]\n"
        f"sink: {{type: topic, topic: {target}, key: n}}\ncheckpoint: state\n"
    )
    for _ in range(2):  # The second run has no new records.
        supervise(spark, [path], bootstrap, once=True)
    found = sorted(received(bootstrap, target), key=lambda row: row["n"])
    assert found == [{"n": number, "deliveries": 1} for number in range(20)]


def test_options_are_checked_when_the_query_starts(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(Exception, match=r"startingOffsets cannot be combined with share\.group\.id"):
        read(spark, bootstrap, "orders", "group", startingOffsets="earliest")


@pytest.mark.timeout(1200)
def test_each_record_arrives_once_although_drivers_and_workers_are_killed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    records = 2_400
    with new_share_node(tmp_path / "node", request.config.getoption("--target")) as node:
        make_topics(node.bootstrap, records)
        group = new_share_group(node.bootstrap, share_record_lock_duration_ms="15000")
        checkpoint = tmp_path / "checkpoint"
        with Chaos(
            node,
            checkpoint,
            "exactly_once",
            records,
            200,
            driver_kills=1,
            worker_kills=1,
            broker_kills=1,
            share_group=group,
        ) as chaos:
            chaos.run(600)
        assert counts(node, TARGET) == counts(node, SOURCE)


def counts(node: Node, topic: str) -> Counter[int]:
    partitions = read_committed(node.bootstrap, topic)
    return Counter(number for partition in partitions for number in partition)
