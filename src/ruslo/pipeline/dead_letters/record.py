"""A dead letter: the record as it was read, with headers that name its origin and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ruslo.model.topics import TopicPartition
from ruslo.records.builder import build_batch
from ruslo.records.record import Header, Record
from ruslo.runs.dead_letters import OFFSET, PARTITION, REASON, TOPIC

_BATCH_BYTES: Final = 512 * 1024


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
    return {target: dead_letter_batches(records) for target, records in targets.items()}


def dead_letter_batches(dead_letters: Sequence[Record]) -> Iterator[bytearray]:
    """Record batches of up to 512 KB. A larger dead letter gets a batch of its own."""
    batch: list[Record] = []
    room = _BATCH_BYTES
    for dead_letter in dead_letters:
        size = _size(dead_letter)
        if batch and size > room:
            yield build_batch(batch)
            batch, room = [], _BATCH_BYTES
        batch.append(dead_letter._replace(offset=len(batch)))
        room -= size
    if batch:
        yield build_batch(batch)


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return headers + len(record.key or b"") + len(record.value or b"")
