"""The stream reader without Spark, over topics that grow, are deleted and recreated."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from ruslo.pipeline.source.data_loss import DataLost
from ruslo.pipeline.source.offsets import SourceOffsets
from ruslo.pipeline.source.stream_reader import StreamReader
from ruslo.testing import EmbeddedBroker
from tests.pipeline.source_topics import (
    add_partitions,
    delete_topic,
    new_stream,
    new_topic,
    produce,
    read_between,
)

EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture(scope="module")
def bootstrap(ruslo_broker: EmbeddedBroker) -> str:
    return ruslo_broker.bootstrap


@contextmanager
def streaming(bootstrap: str, **options: str) -> Iterator[StreamReader]:
    reader = new_stream(bootstrap, **options)
    try:
        yield reader
    finally:
        reader.stop()


def next_end(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """Call the reader as Spark does: with its own limit, and with offsets parsed from text."""
    stored: dict[str, Any] = json.loads(json.dumps(start))
    return reader.latestOffset(stored, reader.getDefaultReadLimit())


def count(start: dict[str, Any], end: dict[str, Any]) -> int:
    begun = SourceOffsets.from_json(start).offsets
    return sum(offset - begun.get(p, 0) for p, offset in SourceOffsets.from_json(end).offsets.items())


class TestBatches:
    def test_each_record_is_in_one_batch(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap, 3)
        with streaming(bootstrap, subscribe=topic, **EARLIEST) as reader:
            at = reader.initialOffset()
            seen: list[bytes] = []
            for number in range(4):
                for partition in range(3):
                    produce(bootstrap, topic, [b"%d-%d" % (number, partition)] * number, partition)
                end = next_end(reader, at)
                seen += [row["value"] for row in read_between(reader, at, end)]
                at = end
            assert sorted(seen) == sorted(
                b"%d-%d" % (t, p) for t in range(4) for p in range(3) for _ in range(t)
            )

    def test_without_new_records_the_offsets_do_not_change(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap, 12)
        produce(bootstrap, topic, [b"v"], 11)
        with streaming(bootstrap, subscribe=topic, **EARLIEST) as reader:
            end = next_end(reader, reader.initialOffset())
            assert json.dumps(next_end(reader, end)) == json.dumps(end)
            assert reader.partitions(end, end) == []
            newest = SourceOffsets.from_json(reader.reportLatestOffset())
            assert newest.offsets == SourceOffsets.from_json(end).offsets

    def test_latest_starts_with_the_next_record(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"old"] * 5)
        with streaming(bootstrap, subscribe=topic) as reader:
            start = reader.initialOffset()
            produce(bootstrap, topic, [b"new"])
            rows = read_between(reader, start, next_end(reader, start))
            assert [(row["offset"], row["value"]) for row in rows] == [(5, b"new")]

    @pytest.mark.parametrize("before", [0, 2])
    @pytest.mark.parametrize("after", [0, 3])
    def test_the_first_batch_is_the_same_after_a_restart(
        self, bootstrap: str, before: int, after: int
    ) -> None:
        """Spark stores only ends of batches. It requests the initial offset again, and latest has moved."""
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"old"] * 5)
        with streaming(bootstrap, subscribe=topic) as reader:
            start = reader.initialOffset()
            produce(bootstrap, topic, [b"first"] * before)
            end = next_end(reader, start)
        produce(bootstrap, topic, [b"second"] * after)
        with streaming(bootstrap, subscribe=topic) as reader:
            again = read_between(reader, reader.initialOffset(), end)
            assert [row["value"] for row in again] == [b"first"] * before
            following = next_end(reader, end)
            assert (following == end) == (after == 0)
            assert [row["value"] for row in read_between(reader, end, following)] == [b"second"] * after

    def test_a_copy_in_a_task_reads_the_same(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"v"] * 3)
        with streaming(bootstrap, subscribe=topic, **EARLIEST) as reader:
            start = reader.initialOffset()
            (task,) = reader.partitions(start, next_end(reader, start))
            copy, its_task = pickle.loads(pickle.dumps((reader, task)))
            assert sum(batch.num_rows for batch in copy.read(its_task)) == 3


class TestLimits:
    def test_offsets_per_batch(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap, 2)
        produce(bootstrap, topic, [b"v"] * 300, 0)
        produce(bootstrap, topic, [b"v"] * 100, 1)
        with streaming(bootstrap, subscribe=topic, maxOffsetsPerTrigger="40", **EARLIEST) as reader:
            assert reader.getDefaultReadLimit() == ReadMaxRows(40)
            start = reader.initialOffset()
            end = next_end(reader, start)
            assert list(SourceOffsets.from_json(end).offsets.values()) == [30, 10]
            assert len(read_between(reader, start, end)) == 40
            latest = reader.latestOffset(start, ReadAllAvailable())
            assert count(start, latest) == 400

    def test_bytes_per_batch(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [bytes(1000)] * 400)
        with streaming(bootstrap, subscribe=topic, maxBytesPerTrigger="50k", **EARLIEST) as reader:
            assert reader.getDefaultReadLimit() == ReadMaxBytes(50 * 1024)
            start = reader.initialOffset()
            assert 40 <= count(start, next_end(reader, start)) <= 51

    def test_limits_per_topic(self, bootstrap: str) -> None:
        slow, fast = new_topic(bootstrap), new_topic(bootstrap)
        for topic in (slow, fast):
            produce(bootstrap, topic, [b"v"] * 100)
        options = {"subscribe": f"{slow},{fast}", "maxOffsetsPerTopic": f'{{"{slow}": 5}}', **EARLIEST}
        with streaming(bootstrap, **options) as reader:
            end = SourceOffsets.from_json(next_end(reader, reader.initialOffset())).offsets
            assert {p.topic: offset for p, offset in end.items()} == {slow: 5, fast: 100}

    def test_a_batch_waits_for_its_minimum(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"}
        with streaming(bootstrap, subscribe=topic, **options, **EARLIEST) as reader:
            assert reader.getDefaultReadLimit() == ReadMinRows(10)
            produce(bootstrap, topic, [b"v"])
            first = next_end(reader, reader.initialOffset())
            assert SourceOffsets.from_json(first).offsets, "the first batch does not wait"
            produce(bootstrap, topic, [b"v"] * 9)
            assert next_end(reader, first) == first
            produce(bootstrap, topic, [b"v"])
            assert count(first, next_end(reader, first)) == 10

    def test_a_batch_waits_no_longer_than_the_maximum_delay(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1ms"}
        with streaming(bootstrap, subscribe=topic, **options, **EARLIEST) as reader:
            produce(bootstrap, topic, [b"v"])
            first = next_end(reader, reader.initialOffset())
            produce(bootstrap, topic, [b"v"])
            assert count(first, next_end(reader, first)) == 1

    def test_available_now_ends_at_the_offsets_of_the_start(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"v"] * 10)
        options = {"maxOffsetsPerTrigger": "4", "minOffsetsPerTrigger": "3"}
        with streaming(bootstrap, subscribe=topic, **options, **EARLIEST) as reader:
            reader.prepareForTriggerAvailableNow()
            produce(bootstrap, topic, [b"later"] * 50)
            at, sizes = reader.initialOffset(), []
            while (end := next_end(reader, at)) != at:
                sizes.append(count(at, end))
                at = end
            assert sizes == [4, 4, 2]


class TestChangingTopics:
    def test_added_partitions_are_read_from_their_beginning(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        with streaming(bootstrap, subscribe=topic) as reader:
            start = next_end(reader, reader.initialOffset())
            add_partitions(bootstrap, topic, 3)
            assert next_end(reader, start) == start, "new and empty: no batch"
            produce(bootstrap, topic, [b"early"] * 2, 2)
            end = next_end(reader, start)
            assert [row["partition"] for row in read_between(reader, start, end)] == [2, 2]

    def test_new_topics_that_match_the_pattern(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        with streaming(bootstrap, subscribePattern=f"{topic}.*") as reader:
            start = reader.initialOffset()
            newer = new_topic(bootstrap, name=f"{topic}-newer")
            produce(bootstrap, newer, [b"v"])
            assert [row["topic"] for row in read_between(reader, start, next_end(reader, start))] == [newer]

    def test_a_deleted_topic(self, bootstrap: str) -> None:
        deleted, kept = new_topic(bootstrap), new_topic(bootstrap)
        options = {"subscribe": f"{deleted},{kept}"}
        with (
            streaming(bootstrap, **options) as strict,
            streaming(bootstrap, failOnDataLoss="false", **options) as lenient,
        ):
            start = strict.initialOffset()
            delete_topic(bootstrap, deleted)
            with pytest.raises(DataLost, match=f"{deleted}-0 does not exist anymore.*failOnDataLoss"):
                next_end(strict, start)
            produce(bootstrap, kept, [b"v"])
            assert [row["topic"] for row in read_between(lenient, start, next_end(lenient, start))] == [kept]

    def test_a_recreated_topic(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"old"] * 3)
        with (
            streaming(bootstrap, subscribe=topic, **EARLIEST) as strict,
            streaming(bootstrap, subscribe=topic, failOnDataLoss="false") as lenient,
        ):
            start = next_end(strict, strict.initialOffset())
            delete_topic(bootstrap, topic)
            new_topic(bootstrap, name=topic)
            # More records than before: offsets alone would not show the loss.
            produce(bootstrap, topic, [b"new"] * 5)
            with pytest.raises(DataLost, match=f"{topic} was deleted and recreated"):
                next_end(strict, start)
            end = next_end(lenient, start)
            rows = read_between(lenient, start, end)
            assert [(row["offset"], row["value"]) for row in rows] == [(n, b"new") for n in range(5)]
            assert next_end(lenient, end) == end

    def test_a_topic_recreated_while_a_task_reads_it(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"old"] * 3)
        with streaming(bootstrap, subscribe=topic, **EARLIEST) as reader:
            start = reader.initialOffset()
            (task,) = reader.partitions(start, next_end(reader, start))
            delete_topic(bootstrap, topic)
            new_topic(bootstrap, name=topic)
            produce(bootstrap, topic, [b"new"] * 5)
            with pytest.raises(DataLost, match="recreated while it was read"):
                list(reader.read(task))

    def test_a_truncated_log(self, bootstrap: str) -> None:
        topic = new_topic(bootstrap)
        produce(bootstrap, topic, [b"v"] * 3)
        with (
            streaming(bootstrap, subscribe=topic, **EARLIEST) as strict,
            streaming(bootstrap, subscribe=topic, failOnDataLoss="false") as lenient,
        ):
            found = SourceOffsets.from_json(next_end(strict, strict.initialOffset()))
            ahead = SourceOffsets(found.topic_ids, dict.fromkeys(found.offsets, 10)).to_json()
            with pytest.raises(DataLost, match="ends at offset 3 now, but was read up to 10"):
                next_end(strict, ahead)
            end = next_end(lenient, ahead)
            assert list(SourceOffsets.from_json(end).offsets.values()) == [3]
            assert read_between(lenient, ahead, end) == []
