"""Dead letters: records with headers that name their origin and why they could not be decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ruslo.model.topics import TopicPartition
from ruslo.records.builder import build_batch
from ruslo.records.record import Header, Record

REASON: Final = "ruslo.error.reason"
TOPIC: Final = "ruslo.source.topic"
PARTITION: Final = "ruslo.source.partition"
OFFSET: Final = "ruslo.source.offset"
_BATCH_BYTES: Final = 512 * 1024
ORIGIN_HEADERS: Final = frozenset({REASON, TOPIC, PARTITION, OFFSET})


class Origin(NamedTuple):
    topic: str
    partition: int
    reason: str


def origin_of(headers: Iterable[tuple[str, bytes | None]]) -> Origin | None:
    """None if the record is not a dead letter. If it failed twice, the last origin applies."""
    found = {
        name: value.decode(errors="replace") for name, value in headers if name in ORIGIN_HEADERS and value
    }
    topic, partition = found.get(TOPIC), found.get(PARTITION, "")
    if not topic or not partition.isdecimal():
        return None
    return Origin(topic, int(partition), found.get(REASON, "no reason given"))


def record_batches(records: Iterable[Record]) -> Iterator[bytearray]:
    """Record batches of up to 512 KB. A larger record gets a batch of its own."""
    batch: list[Record] = []
    room = _BATCH_BYTES
    for record in records:
        size = _size(record)
        if batch and size > room:
            yield build_batch(batch)
            batch, room = [], _BATCH_BYTES
        batch.append(record._replace(offset=len(batch)))
        room -= size
    if batch:
        yield build_batch(batch)


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return headers + len(record.key or b"") + len(record.value or b"")


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
