"""A dead letter: the record as it was read, with headers that name its origin and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ruslo.model.topics import TopicPartition
from ruslo.records.record import Header, Record
from ruslo.runs.dead_letters import OFFSET, PARTITION, REASON, TOPIC, record_batches


def origin_headers(source: TopicPartition, offset: int, reason: str) -> tuple[Header, ...]:
    """The headers that turn a record into a dead letter."""
    return (
        (REASON, reason.encode(errors="replace")),
        (TOPIC, source.topic.encode()),
        (PARTITION, str(source.partition).encode()),
        (OFFSET, str(offset).encode()),
    )


def origin_key(dead_letter: Record) -> tuple[bytes, int, int]:
    """Topic, partition and offset of the original record: identifies it, and sorts by offset."""
    headers = dict(dead_letter.headers)
    return headers[TOPIC] or b"", int(headers[PARTITION] or b"0"), int(headers[OFFSET] or b"0")


def batches_by_partition(
    dead_letters: Iterable[Record], topic: str, partition_count: int
) -> dict[TopicPartition, Iterator[bytearray]]:
    """Record batches for a dead-letter topic. Dead letters of one source partition keep their order."""
    targets: dict[TopicPartition, list[Record]] = {}
    for dead_letter in dead_letters:
        partition = origin_key(dead_letter)[1] % partition_count
        targets.setdefault(TopicPartition(topic, partition), []).append(dead_letter)
    return {target: record_batches(records) for target, records in targets.items()}
