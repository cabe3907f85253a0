"""Consecutive batches of one partition, fetched or read from a segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ruslo.pipeline.decode.batch_table import BatchTable
from ruslo.pipeline.decode.committed import Aborted, committed_batches, data_batches
from ruslo.pipeline.decode.rows import Rows, decode_rows
from ruslo.pipeline.source.planning import OffsetRange


@dataclass(frozen=True, slots=True)
class Chunk:
    """The first and the last batch may extend beyond the offset range."""

    offset_range: OffsetRange
    table: BatchTable
    aborted: Sequence[Aborted]

    def rows(self, *, read_committed: bool, min_timestamp: int | None = None) -> Iterator[Rows]:
        """The records of the offset range that a reader may see.

        Batches whose records are all older than ``min_timestamp`` are skipped without decoding; other batches
        may still contain older records.
        """
        table = committed_batches(self.table, self.aborted) if read_committed else data_batches(self.table)
        kept = (table.last_offsets >= self.offset_range.start) & (table.base_offsets < self.offset_range.end)
        if min_timestamp is not None:
            kept &= table.max_timestamps >= min_timestamp
        if not kept.all():
            table = table.take(kept)
        return decode_rows(table, self.offset_range.start, self.offset_range.end)
