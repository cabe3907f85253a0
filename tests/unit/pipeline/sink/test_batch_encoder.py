"""The compiled encoder compared with the plain builder, for every type of column."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode.columns import HEADERS
from ruslo.pipeline.sink.batch_encoder import BatchEncoder, EncodedBatch
from ruslo.records.builder import build_batch
from ruslo.records.compression import Codec
from ruslo.records.reader import read_records
from ruslo.records.record import Record

NOW_MS = 1_700_000_000_000


def encoder(
    topic: str | None = "t",
    partitions: Callable[[str], int] = lambda topic: 1,
    batch_bytes: int = 64 * 1024,
    codec: int = 0,
    seed: int = 0,
) -> BatchEncoder:
    return BatchEncoder(
        topic=topic,
        partition_count=partitions,
        batch_bytes=batch_bytes,
        codec=codec,
        level=None,
        now_ms=lambda: NOW_MS,
        seed=seed,
    )


def encode(into: BatchEncoder, *batches: pa.RecordBatch) -> list[EncodedBatch]:
    full = [encoded for batch in batches for encoded in into.add(batch)]
    return [*full, *into.finish()]


def records_by_target(batches: list[EncodedBatch]) -> dict[TopicPartition, list[Record]]:
    found: dict[TopicPartition, list[Record]] = {}
    for batch in batches:
        records = list(read_records(bytes(batch.records)))
        assert len(records) == batch.record_count
        found.setdefault(batch.target, []).extend(records)
    return found


def random_rows(rng: random.Random, count: int) -> list[Record]:
    def some_bytes() -> bytes | None:
        return None if rng.random() < 0.2 else rng.randbytes(rng.choice([0, 1, 63, 64, 200, 9000]))

    def headers() -> tuple[tuple[str, bytes | None], ...]:
        return tuple((f"имя-{n}", some_bytes()) for n in range(rng.choice([0, 0, 1, 3])))

    return [
        Record(n, NOW_MS + rng.randint(-100_000, 100_000), some_bytes(), some_bytes(), headers())
        for n in range(count)
    ]


def arrow_of(rows: list[Record], *, large: bool = False) -> pa.RecordBatch:
    kind = pa.large_binary() if large else pa.binary()
    headers = [[{"key": name, "value": value} for name, value in row.headers] or None for row in rows]
    times = [datetime.fromtimestamp(row.timestamp / 1000, UTC) for row in rows]
    return pa.record_batch(
        {
            "key": pa.array([row.key for row in rows], kind),
            "value": pa.array([row.value for row in rows], kind),
            "headers": pa.array(headers, HEADERS),
            "timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("large", [False, True])
def test_a_batch_equals_that_of_the_builder(seed: int, large: bool) -> None:
    rows = random_rows(random.Random(seed), 40)
    (batch,) = encode(encoder(batch_bytes=10_000_000), arrow_of(rows, large=large))
    assert batch.records == build_batch(rows)


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_contain_the_same_records(codec: Codec) -> None:
    rows = random_rows(random.Random(7), 60)
    found = records_by_target(encode(encoder(codec=codec), arrow_of(rows)))
    assert [(r.timestamp, r.key, r.value, r.headers) for r in found[TopicPartition("t", 0)]] == [
        (r.timestamp, r.key, r.value, r.headers) for r in rows
    ]


def test_a_slice_of_a_larger_table_is_encoded() -> None:
    rows = random_rows(random.Random(3), 50)
    (batch,) = encode(encoder(batch_bytes=10_000_000), arrow_of(rows).slice(20, 10))
    renumbered = [row._replace(offset=n) for n, row in enumerate(rows[20:30])]
    assert batch.records == build_batch(renumbered)


def test_text_is_written_as_utf8_and_the_default_timestamp_is_now() -> None:
    rows = pa.record_batch({"key": pa.array(["ключ"]), "value": pa.array(["значение"])})
    found = records_by_target(encode(encoder(), rows))
    assert found[TopicPartition("t", 0)] == [Record(0, NOW_MS, "ключ".encode(), "значение".encode(), ())]


def test_only_a_large_record_exceeds_the_batch_size() -> None:
    values = [b"x" * 100] * 50 + [b"y" * 5000] + [b"z" * 100] * 50
    batches = encode(encoder(batch_bytes=1000), pa.record_batch({"value": pa.array(values)}))
    assert [len(batch.records) <= 1000 for batch in batches].count(False) == 1
    assert [record.value for batch in batches for record in read_records(bytes(batch.records))] == values


@pytest.mark.parametrize("batch_bytes", [2, 60, 61, 62])
def test_batches_smaller_than_their_header_have_one_record_each(batch_bytes: int) -> None:
    rows = random_rows(random.Random(1), 3)
    batches = encode(encoder(batch_bytes=batch_bytes), arrow_of(rows))
    assert [batch.record_count for batch in batches] == [1, 1, 1]


def test_rows_of_a_partition_stay_in_order() -> None:
    rows = [
        pa.record_batch(
            {"key": pa.array([str(n % 7)] * 50), "value": pa.array([f"{n}-{i}" for i in range(50)])}
        )
        for n in range(20)
    ]
    found = records_by_target(encode(encoder(partitions=lambda topic: 5, batch_bytes=300), *rows))
    for records in found.values():
        numbers = [tuple(map(int, (record.value or b"").split(b"-"))) for record in records]
        assert numbers == sorted(numbers)
    assert sum(map(len, found.values())) == 1000


def test_records_without_a_key_fill_one_partition_after_another() -> None:
    values = pa.array([b"v" * 100] * 90)
    batches = encode(
        encoder(partitions=lambda topic: 3, batch_bytes=1000, seed=1), pa.record_batch({"value": values})
    )
    found = records_by_target(batches)
    assert {target.partition for target in found} == {0, 1, 2}
    assert {len(records) for records in found.values()} == {30}
    assert batches[0].target.partition in (0, 1, 2)


def test_tasks_start_with_different_partitions_for_records_without_a_key() -> None:
    rows = pa.record_batch({"value": pa.array([b"v"] * 10)})
    partitions = [
        encode(encoder(partitions=lambda topic: 3, seed=seed), rows)[0].target.partition for seed in range(3)
    ]
    assert partitions == [0, 1, 2]


def test_the_topic_column_selects_the_topic() -> None:
    rows = pa.record_batch({"topic": pa.array(["a", "b", "a"]), "value": pa.array(["1", "2", "3"])})
    found = records_by_target(encode(encoder(topic=None), rows))
    assert {target.topic: [r.value for r in records] for target, records in found.items()} == {
        "a": [b"1", b"3"],
        "b": [b"2"],
    }


def test_the_topic_option_overrides_the_column() -> None:
    rows = pa.record_batch({"topic": pa.array(["a", None]), "value": pa.array(["1", "2"])})
    assert {batch.target.topic for batch in encode(encoder(topic="chosen"), rows)} == {"chosen"}


def test_a_row_without_a_topic_is_rejected() -> None:
    rows = pa.record_batch({"topic": pa.array(["a", None]), "value": pa.array(["1", "2"])})
    with pytest.raises(ConfigError, match="a row has no topic"):
        encode(encoder(topic=None), rows)


def test_the_partition_column_overrides_the_key() -> None:
    rows = pa.record_batch(
        {
            "key": pa.array(["21", "21"]),
            "value": pa.array(["by column", "by key"]),
            "partition": pa.array([0, None], pa.int32()),
        }
    )
    found = records_by_target(encode(encoder(partitions=lambda topic: 1000), rows))
    # Java's murmur2 of "21" is -973932308; without its sign bit, modulo 1000.
    assert {target.partition: records[0].value for target, records in found.items()} == {
        0: b"by column",
        (-973932308 & 0x7FFFFFFF) % 1000: b"by key",
    }


@pytest.mark.parametrize("partition", [3, -2])
def test_an_unknown_partition_is_rejected(partition: int) -> None:
    rows = pa.record_batch({"value": pa.array(["v"]), "partition": pa.array([partition], pa.int32())})
    with pytest.raises(ConfigError, match=f"names partition {partition} of topic 't', which has 3"):
        encode(encoder(partitions=lambda topic: 3), rows)


def test_a_header_without_a_key_is_rejected() -> None:
    headers = pa.array([[{"key": None, "value": b"x"}]], HEADERS)
    with pytest.raises(ConfigError, match="a header whose key is null"):
        encode(encoder(), pa.record_batch({"value": pa.array(["v"]), "headers": headers}))


def test_a_key_column_of_type_null() -> None:
    rows = pa.record_batch({"key": pa.nulls(2), "value": pa.array(["1", None])})
    found = records_by_target(encode(encoder(), rows))
    assert [(r.key, r.value) for r in found[TopicPartition("t", 0)]] == [(None, b"1"), (None, None)]


def test_no_rows_result_in_no_batches() -> None:
    assert encode(encoder(), pa.record_batch({"value": pa.array([], pa.string())})) == []
