"""The source without Spark, reading a real broker over the wire and from segment files."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from ruslo.model.errors import ConfigError, KafkaError
from ruslo.pipeline.source.data_loss import DataLost
from ruslo.records.compression import Codec
from ruslo.testing import EmbeddedBroker
from tests.pipeline.source_topics import NOW, delete_before, new_topic, parse, plan, produce, read, schema_of
from tests.support.txns.transactional_clients import new_transactional

SCANS = ("wire", "direct")


@pytest.fixture(scope="module")
def bootstrap(ruslo_broker: EmbeddedBroker) -> str:
    return ruslo_broker.bootstrap


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """A topic with several segments per partition."""
    topic = new_topic(bootstrap, 2, segment_bytes="1048576")
    for partition in range(2):
        values = [b"%d" % n + bytes(4000) for n in range(1000)]
        produce(bootstrap, topic, values, partition, timestamp=NOW, per_batch=20)
    return topic


def offsets(rows: list[dict[str, object]]) -> list[object]:
    return [row["offset"] for row in rows]


@pytest.mark.parametrize("scan", SCANS)
class TestRows:
    @pytest.mark.parametrize("codec", list(Codec))
    def test_every_column_of_every_codec(self, bootstrap: str, scan: str, codec: Codec) -> None:
        topic = new_topic(bootstrap, 2)
        headers = (("trace", b"1"), ("none", None))
        produce(bootstrap, topic, [b"v%d" % n for n in range(250)], 0, key=b"k", codec=codec)
        produce(bootstrap, topic, [None, b""], 1, headers=headers, codec=codec)
        rows = read(bootstrap, subscribe=topic, scan=scan, includeHeaders="true")
        assert len(rows) == 252
        first, last = rows[0], rows[-2]
        assert round(first["timestamp"].timestamp() * 1000) == NOW
        assert {name: first[name] for name in first if name != "timestamp"} == {
            "key": b"k",
            "value": b"v0",
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "timestampType": 0,
            "headers": None,
        }
        assert (last["key"], last["value"], last["partition"]) == (None, None, 1)
        assert last["headers"] == [{"key": "trace", "value": b"1"}, {"key": "none", "value": None}]
        assert [row["value"] for row in rows[:250]] == [b"v%d" % n for n in range(250)]

    def test_log_append_time(self, bootstrap: str, scan: str) -> None:
        topic = new_topic(bootstrap, message_timestamp_type="LogAppendTime")
        produce(bootstrap, topic, [b"v"])
        (row,) = read(bootstrap, subscribe=topic, scan=scan)
        assert row["timestampType"] == 1
        assert row["timestamp"].timestamp() * 1000 > NOW

    def test_selected_columns(self, bootstrap: str, scan: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"v"])
        assert read(bootstrap, subscribe=topic, scan=scan, columns="offset,value") == [
            {"offset": 0, "value": b"v"}
        ]

    def test_transactions(self, bootstrap: str, scan: str) -> None:
        topic = new_topic(bootstrap, 2)
        producer = new_transactional(bootstrap, f"tx-{topic}")
        for number in range(60):
            producer.begin_transaction()
            for at in range(4):
                producer.produce(topic, b"%d-%d" % (number, at), partition=at % 2)
            producer.flush()
            if number % 3:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=0)
        producer.flush()
        rows = read(bootstrap, subscribe=topic, scan=scan)
        committed = sorted(b"%d-%d" % (n, at) for n in range(60) if n % 3 for at in range(4))
        assert sorted(row["value"] for row in rows) == committed
        all_rows = read(bootstrap, subscribe=topic, scan=scan, isolation="read_uncommitted")
        assert len(all_rows) == 241
        # Tasks start in the middle of transactions.
        assert read(bootstrap, subscribe=topic, scan=scan, maxRecordsPerPartition="7") == rows
        producer.abort_transaction()


@pytest.mark.parametrize("scan", SCANS)
class TestPositions:
    def test_offsets(self, bootstrap: str, topic: str, scan: str) -> None:
        rows = read(
            bootstrap,
            subscribe=topic,
            scan=scan,
            startingOffsets=f'{{"{topic}": {{"0": 990, "1": -2}}}}',
            endingOffsets=f'{{"{topic}": {{"0": -1, "1": 5}}}}',
        )
        assert [(row["partition"], row["offset"]) for row in rows] == [
            *((0, n) for n in range(990, 1000)),
            *((1, n) for n in range(5)),
        ]

    def test_times(self, bootstrap: str, topic: str, scan: str) -> None:
        rows = read(
            bootstrap,
            assign=f'{{"{topic}": [1]}}',
            scan=scan,
            startingTimestamp=str(NOW + 100),
            endingTimestamp=str(NOW + 103),
        )
        assert offsets(rows) == [100, 101, 102]
        rows = read(
            bootstrap,
            subscribe=topic,
            scan=scan,
            startingOffsetsByTimestamp=f'{{"{topic}": {{"0": {NOW + 998}, "1": {NOW + 999}}}}}',
        )
        assert offsets(rows) == [998, 999, 999]

    def test_offset_ranges_of_any_size_result_in_the_same_rows(
        self, bootstrap: str, topic: str, scan: str
    ) -> None:
        whole = read(bootstrap, subscribe=topic, scan=scan)
        assert len(whole) == 2000
        assert len(plan(bootstrap, subscribe=topic, bytesPerTask="500k", scan=scan)) > 4
        assert read(bootstrap, subscribe=topic, scan=scan, bytesPerTask="500k") == whole
        assert read(bootstrap, subscribe=topic, scan=scan, minPartitions="13") == whole
        small_fetches = {"kafka.max.partition.fetch.bytes": "100000"}
        assert read(bootstrap, subscribe=topic, scan=scan, **small_fetches) == whole


class TestFutureTimes:
    def test_a_future_time_is_an_error_or_the_end(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"v"])
        with pytest.raises(ConfigError, match="no record is that recent"):
            read(bootstrap, subscribe=topic, startingTimestamp=str(NOW + 10))
        rows = read(
            bootstrap,
            subscribe=topic,
            startingTimestamp=str(NOW + 10),
            startingOffsetsByTimestampStrategy="latest",
        )
        assert rows == []


class TestSubscriptions:
    def test_topics_by_pattern(self, bootstrap: str) -> None:
        one = new_topic(bootstrap)
        other = new_topic(bootstrap, name=f"{one}-other")
        for topic in (one, other):
            produce(bootstrap, topic, [b"v"])
        rows = read(bootstrap, subscribePattern=f"{one}.*")
        assert [row["topic"] for row in rows] == [one, other]

    def test_small_partitions_share_a_task(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap, 20)
        for partition in range(20):
            produce(bootstrap, topic, [b"v"] * 60, partition)
        (task,) = plan(bootstrap, subscribe=topic)
        assert len(task.ranges) == 20
        assert len(read(bootstrap, subscribe=topic)) == 1200

    def test_a_missing_topic(self, bootstrap: str) -> None:
        with pytest.raises(KafkaError, match="nowhere does not exist: check the name"):
            read(bootstrap, subscribe="nowhere")

    def test_an_end_beyond_the_log(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        with pytest.raises(ConfigError, match=r"beyond the end of the log.*ends at 0"):
            read(bootstrap, subscribe=topic, endingOffsets=f'{{"{topic}": {{"0": 5}}}}')

    def test_nothing_to_read(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        assert plan(bootstrap, subscribe=topic) == []
        assert read(bootstrap, subscribe=topic) == []


class TestDataLoss:
    @pytest.mark.parametrize("scan", SCANS)
    def test_deleted_records(self, bootstrap: str, scan: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"v"] * 50)
        delete_before(bootstrap, topic, 20)
        assert offsets(read(bootstrap, subscribe=topic, scan=scan)) == list(range(20, 50))
        from_zero = f'{{"{topic}": {{"0": 0}}}}'
        with pytest.raises(DataLost, match=r"starts at offset 20 now.*offsets 0 to 19"):
            read(bootstrap, subscribe=topic, scan=scan, startingOffsets=from_zero)
        rows = read(bootstrap, subscribe=topic, scan=scan, startingOffsets=from_zero, failOnDataLoss="false")
        assert offsets(rows) == list(range(20, 50))

    def test_a_reader_that_stops_early_ends_its_thread(self, bootstrap: str) -> None:
        from ruslo.pipeline.source.scan_task import read_task

        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [bytes(1000)] * 20_000, per_batch=500)
        # Small chunks: the thread waits for the decoder long before it has fetched everything.
        expected = replace(parse(bootstrap, streaming=False, subscribe=topic), fetch_bytes=100_000)
        (task,) = plan(bootstrap, subscribe=topic)
        before = set(threading.enumerate())
        batches = read_task(task, expected, schema_of(expected))
        assert next(batches).num_rows > 0
        (reader,) = (thread for thread in threading.enumerate() if thread not in before)
        batches.close()  # type: ignore[attr-defined]  # a generator
        assert not reader.is_alive()
