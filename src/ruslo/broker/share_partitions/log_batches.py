"""The batches that a fetch found in the log, from their headers; records are never decoded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ruslo.machines.share_partition.values import AcquiredRange, OffsetRange
from ruslo.records.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LAST_OFFSET_DELTA,
    PRODUCER_ID,
    TRANSACTIONAL,
    size_of,
)
from ruslo.storage.batch_scan import scan_headers
from ruslo.storage.disk import FileSlice
from ruslo.storage.txn_index import AbortedTransaction

MAX_BATCHES = 2_000
"""Batches of one partition that a fetch looks at; the next fetch goes on behind them."""


@dataclass(frozen=True, slots=True)
class LogBatches:
    read: FileSlice
    ranges: Sequence[OffsetRange]
    """The offsets of the batches, in order."""
    ends: Sequence[int]
    """Where each batch ends in the file."""
    transactional: Sequence[tuple[OffsetRange, int]]
    """Batches that belong to transactions, without markers, and their producer ids."""

    def aborted(self, transactions: Iterable[AbortedTransaction]) -> list[OffsetRange]:
        """The batches of aborted transactions."""
        by_producer: dict[int, list[AbortedTransaction]] = {}
        for each in transactions:
            by_producer.setdefault(each.producer_id, []).append(each)
        for of_producer in by_producer.values():
            of_producer.sort(key=lambda each: each.first_offset)
        found: list[OffsetRange] = []
        for batch, producer_id in self.transactional:
            candidates = by_producer.get(producer_id, [])
            at = bisect_right(candidates, batch.first, key=lambda each: each.first_offset) - 1
            if at >= 0 and batch.first <= candidates[at].last_offset:
                found.append(batch)
        return found

    def bytes_of(self, acquired: Sequence[AcquiredRange]) -> FileSlice:
        """The bytes of the batches from the first acquired record to the last."""
        begin, end = (
            max(bisect_right(self.ranges, offset, key=lambda batch: batch.first) - 1, 0)
            for offset in (acquired[0].first, acquired[-1].last)
        )
        position = self.ends[begin - 1] if begin else self.read.position
        return FileSlice(self.read.file, position, self.ends[end] - position)


def scan(read: FileSlice, stop_offset: int) -> LogBatches:
    """The whole batches of a read, up to the one with the last offset before ``stop_offset``."""
    ranges: list[OffsetRange] = []
    ends: list[int] = []
    transactional: list[tuple[OffsetRange, int]] = []
    for position, header in scan_headers(read.file, read.position, read.position + read.size):
        batch = OffsetRange(header[BASE_OFFSET], header[BASE_OFFSET] + header[LAST_OFFSET_DELTA])
        ranges.append(batch)
        ends.append(position + size_of(header))
        if header[ATTRIBUTES] & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL:
            transactional.append((batch, header[PRODUCER_ID]))
        if batch.last + 1 >= stop_offset or len(ranges) >= MAX_BATCHES:
            break
    return LogBatches(read, ranges, ends, transactional)
