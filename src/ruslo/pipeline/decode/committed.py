"""The batches that a reader may see: no control batches, and with read_committed no aborted ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from ruslo.pipeline.decode.batch_table import BatchTable
from ruslo.records.control import ControlType, read_control_type
from ruslo.records.reader import read_records


class Aborted(Protocol):
    """An aborted transaction, from a Fetch response or a segment's transaction index."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


def data_batches(table: BatchTable) -> BatchTable:
    """The batches for read_uncommitted."""
    control = table.is_control
    return table.take(~control) if control.any() else table


def committed_batches(table: BatchTable, aborted: Iterable[Aborted]) -> BatchTable:
    """The batches for read_committed; all of them must be below the last stable offset.

    A transaction is aborted from its first offset to its producer's next abort marker. ``aborted`` are the
    transactions that overlap the batches, as brokers return them.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    if not waiting:
        return data_batches(table)
    control = table.is_control
    kept = ~control
    producers_in_abort: set[int] = set()
    for number in np.flatnonzero(table.is_transactional | control).tolist():
        last_offset = int(table.last_offsets[number])
        while waiting and waiting[-1].first_offset <= last_offset:
            producers_in_abort.add(waiting.pop().producer_id)
        producer_id = int(table.producer_ids[number])
        if not control[number]:
            if producer_id in producers_in_abort:
                kept[number] = False
        elif producer_id in producers_in_abort and _is_abort_marker(table, number):
            producers_in_abort.remove(producer_id)
    return table.take(kept)


def _is_abort_marker(table: BatchTable, number: int) -> bool:
    batch = table.batch(number)
    record = next(read_records(batch), None)
    if record is None:
        # Compaction leaves only the header of a marker that is no longer needed.
        return False
    return read_control_type(record.key) == ControlType.ABORT
