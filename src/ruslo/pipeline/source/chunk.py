"""A run of batches of one partition, from wherever it was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ruslo.pipeline.decode.batch_table import BatchTable
from ruslo.pipeline.decode.committed import Aborted, committed_batches, data_batches
from ruslo.pipeline.decode.rows import Rows, decode_rows
from ruslo.pipeline.source.planning import Span


@dataclass(frozen=True, slots=True)
class Chunk:
    """The first and the last batch may reach beyond the span."""

    span: Span
    table: BatchTable
    aborted: Sequence[Aborted]

    def rows(self, *, read_committed: bool, min_timestamp: int | None = None) -> Iterator[Rows]:
        """The records of the span that a reader may see.

        Batches of which no record is as young as ``min_timestamp`` are left out unopened; older records of
        others are not.
        """
        table = committed_batches(self.table, self.aborted) if read_committed else data_batches(self.table)
        kept = (table.last_offsets >= self.span.start) & (table.base_offsets < self.span.end)
        if min_timestamp is not None:
            kept &= table.max_timestamps >= min_timestamp
        if not kept.all():
            table = table.take(kept)
        return decode_rows(table, self.span.start, self.span.end)
