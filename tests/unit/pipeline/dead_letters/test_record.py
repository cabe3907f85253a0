from __future__ import annotations

from ruslo.model.topics import TopicPartition
from ruslo.records.reader import read_records
from ruslo.records.record import Record
from ruslo.runs.dead_letters import (
    batches_by_partition,
    origin_headers,
    origin_key,
    record_batches,
)


def dead_letter(offset: int, value: bytes = b"junk", partition: int = 3) -> Record:
    source = TopicPartition("orders", partition)
    return Record(0, 1000, b"k", value, (("trace", b"1"), *origin_headers(source, offset, "not JSON")))


def offsets(batch: bytearray) -> list[int]:
    return [origin_key(record)[2] for record in read_records(batch)]


def test_dead_letters_of_a_source_partition_stay_in_order() -> None:
    batches = batches_by_partition([dead_letter(7, partition=1), dead_letter(4), dead_letter(5)], "dead", 2)
    assert {target: [offsets(batch) for batch in each] for target, each in batches.items()} == {
        TopicPartition("dead", 1): [[7, 4, 5]]
    }


def test_a_large_dead_letter_gets_a_batch_of_its_own() -> None:
    records = [dead_letter(1, bytes(100)), dead_letter(2, bytes(700_000)), dead_letter(3), dead_letter(4)]
    assert [offsets(batch) for batch in record_batches(records)] == [[1], [2], [3, 4]]
