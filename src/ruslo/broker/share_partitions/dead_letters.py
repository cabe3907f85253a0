"""Dead letters (KIP-1191): records that say which record a share group could not process, and why."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Steps
from ruslo.machines.share_partition.values import OffsetRange
from ruslo.model.errors import KafkaError, ProtocolError
from ruslo.records.batch import CONTROL, HEADER_SIZE
from ruslo.records.builder import build_batch
from ruslo.records.reader import iter_batches, read_records
from ruslo.records.record import Record

logger = logging.getLogger(__name__)

MAX_READ_BYTES = 1 << 20
"""Bytes of the source's log that are decoded at a time, unless one batch is larger."""
REJECTED = b"Offset rejected by client."
LIMIT_REACHED = b"Offset delivery count exceeded the threshold."
_RECORD_OVERHEAD = 32
"""More than the lengths, deltas and counts of a record."""
_HEADER_OVERHEAD = 10


class Undeliverable(NamedTuple):
    """Records of equal delivery count and cause."""

    offsets: OffsetRange
    delivery_count: int
    cause: bytes


class Contents(NamedTuple):
    """What the log has for a range of offsets."""

    records: Mapping[int, Record]
    unreadable: Sequence[OffsetRange]
    """Offsets of batches that cannot be decoded, or that the log has deleted: it is unknown which exist."""
    next_offset: int
    """Where to read on."""

    def has(self, offset: int) -> bool:
        return offset in self.records or any(first <= offset <= last for first, last in self.unreadable)


class Letter(NamedTuple):
    offset: int
    record: Record

    @property
    def size(self) -> int:
        """At least the bytes of the record in a batch."""
        _, _, key, value, headers = self.record
        return (
            _RECORD_OVERHEAD
            + len(key or b"")
            + len(value or b"")
            + sum(_HEADER_OVERHEAD + len(name) + len(text or b"") for name, text in headers)
        )


def contents(partition: Partition, first: int, last: int) -> Steps[Contents]:
    """Read from the first of these offsets on, at most to the last. Raises StorageError."""
    found: dict[int, Record] = {}
    unreadable: list[OffsetRange] = []
    start = partition.log.start_offset
    if first < start:
        end = min(start - 1, last)
        return Contents(found, [OffsetRange(first, end)], end + 1)
    try:
        read = partition.read(first, MAX_READ_BYTES, committed_only=False, at_least_one=True)
    except KafkaError as error:
        logger.warning("The records %d to %d of %s cannot be read: %s", first, last, partition, error)
        return Contents(found, [OffsetRange(first, last)], last + 1)
    if read.slice is None:
        return Contents(found, [], last + 1)
    data = memoryview(read.slice.read())
    next_offset = first
    for position, header in iter_batches(data):
        if header.base_offset > last:
            next_offset = last + 1
            break
        end = header.base_offset + header.last_offset_delta
        if not header.attributes & CONTROL:
            try:
                for record in read_records(data[position : position + header.size]):
                    if first <= record.offset <= last:
                        found[record.offset] = record
            except ProtocolError as error:
                logger.warning("Dead letters of %s are written without records: %s", partition, error)
                unreadable.append(OffsetRange(max(header.base_offset, first), min(end, last)))
        next_offset = max(next_offset, end + 1)
        yield
    # Without a whole batch nothing can follow.
    return Contents(found, unreadable, next_offset if next_offset > first else last + 1)


def letters(
    partition: Partition,
    group_id: str,
    undeliverable: Undeliverable,
    source: Contents,
    *,
    copies_records: bool,
    now_ms: int,
) -> Iterator[Letter]:
    """The dead letters of the offsets that have records, in order."""
    first, last = undeliverable.offsets
    fixed = (
        ("__dlq.errors.topic", partition.topic.encode()),
        ("__dlq.errors.partition", b"%d" % partition.index),
    )
    group = ("__dlq.errors.group", group_id.encode())
    count = ("__dlq.errors.delivery.count", b"%d" % undeliverable.delivery_count)
    cause = ("__dlq.errors.message", undeliverable.cause)
    for offset in range(first, min(last, source.next_offset - 1) + 1):
        if source.has(offset):
            headers = (*fixed, ("__dlq.errors.offset", b"%d" % offset), group, count, cause)
            original = source.records.get(offset) if copies_records else None
            key, value = (None, None) if original is None else (original.key, original.value)
            yield Letter(offset, Record(0, now_ms, key, value, headers))


def batches(listed: Iterable[Letter], max_bytes: int) -> Iterator[tuple[int, bytearray]]:
    """Batches of at most this size, unless one letter is larger, and the number of their letters."""
    batch: list[Record] = []
    size = HEADER_SIZE
    for letter in listed:
        if batch and size + letter.size > max_bytes:
            yield len(batch), build_batch(batch)
            batch, size = [], HEADER_SIZE
        batch.append(letter.record._replace(offset=len(batch)))
        size += letter.size
    if batch:
        yield len(batch), build_batch(batch)
