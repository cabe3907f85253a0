"""Records that a fetch acquired, and how they are decoded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.records.batch import CONTROL
from ruslo.records.reader import check_crc, iter_batches, read_records
from ruslo.records.record import Record


@dataclass(frozen=True, slots=True)
class Acquired:
    """The acquired records of one partition in one response."""

    partition: SharePartitionId
    node_id: int
    """The leader that holds the locks; only it can be sent the acknowledgements."""
    ranges: Sequence[AcquiredRange]
    """The acquired offsets, in order and without overlaps."""
    records: ReadBuffer
    """Batches that contain the ranges, and other records as well."""
    lock_timeout_ms: int
    expires_at_ms: int
    """When the locks may expire, on the client's monotonic clock."""


class AcquiredRecord(NamedTuple):
    record: Record
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Decoded:
    records: list[AcquiredRecord]
    problems: dict[int, AcknowledgeType]
    """How to acknowledge acquired offsets without a record: gaps, and damaged batches, which are rejected."""
    damage: ProtocolError | None = None


def decode(acquired: Acquired) -> Decoded:
    """The acquired records, whatever their offsets: a redelivered record is below those that came before."""
    pending = _delivery_counts(acquired.ranges)
    records: list[AcquiredRecord] = []
    problems: dict[int, AcknowledgeType] = {}
    damage: ProtocolError | None = None
    buffer = memoryview(acquired.records)
    for position, header in iter_batches(buffer):
        last_offset = header.base_offset + header.last_offset_delta
        if not _overlaps(acquired.ranges, header.base_offset, last_offset) or header.attributes & CONTROL:
            continue
        batch = buffer[position : position + header.size]
        try:
            if not check_crc(batch):
                raise ProtocolError(f"the batch at offset {header.base_offset} does not match its CRC")
            found = list(read_records(batch))
        except ProtocolError as error:
            damage = damage or error
            for offset in [each for each in pending if header.base_offset <= each <= last_offset]:
                problems[offset] = AcknowledgeType.REJECT
                del pending[offset]
            continue
        for record in found:
            count = pending.pop(record.offset, None)
            if count is not None:
                records.append(AcquiredRecord(record, count))
    problems |= dict.fromkeys(pending, AcknowledgeType.GAP)
    return Decoded(records, problems, damage)


def checked_ranges(ranges: Iterator[AcquiredRange], partition: SharePartitionId) -> list[AcquiredRange]:
    """The ranges of a response in order. Raises ProtocolError for ranges that no broker can acquire."""
    found = sorted(ranges)
    end = -1
    total = 0
    for each in found:
        total += each.last - each.first + 1
        if each.first <= end or each.last < each.first or total > _ACQUIRED_MAX:
            raise ProtocolError(f"the broker acquired invalid offsets of {partition.topic_partition}: {each}")
        end = each.last
    return found


_ACQUIRED_MAX = 1_000_000
"""A broker locks at most some thousand records of a partition (group.share.partition.max.record.locks)."""


def _delivery_counts(ranges: Sequence[AcquiredRange]) -> dict[int, int]:
    return {offset: count for first, last, count in ranges for offset in range(first, last + 1)}


def _overlaps(ranges: Sequence[AcquiredRange], first: int, last: int) -> bool:
    at = bisect_left(ranges, first, key=lambda each: each.last)
    return at < len(ranges) and ranges[at].first <= last
