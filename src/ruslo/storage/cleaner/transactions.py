"""Decides which transactional batches and markers a round may remove (KIP-98, KIP-534).

* Aborted data is removed at once.
* A marker is retained as long as any batch of its transaction, because consumers need it to end the
  transaction; then for another ``delete.retention.ms``, like a tombstone.
* The index entry of an aborted transaction is copied while any of its batches, even an empty one, is left.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ruslo.records.batch import PRODUCER_ID, HeaderFields, last_offset_of
from ruslo.records.control import ControlType
from ruslo.storage.txn_index import AbortedTransaction


class TransactionWalk:
    """Tracks the transactions through the batches of a round, in order."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._by_marker = {each.last_offset: each for each in aborted}
        self._upcoming = [(each.first_offset, each) for each in aborted]
        heapq.heapify(self._upcoming)
        self._aborting: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        """Producers whose current transaction has a batch so far."""

    def may_drop_data(self, header: HeaderFields) -> bool:
        """Whether a transactional data batch belongs to an aborted transaction."""
        self._advance(last_offset_of(header))
        self._with_batches.add(header[PRODUCER_ID])
        return header[PRODUCER_ID] in self._aborting

    def may_drop_marker(
        self, header: HeaderFields, kind: int | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Whether nothing depends on a marker any more; otherwise with the index entry to keep.

        ``kind`` is the type of its control record; None if an earlier round removed the record.
        """
        self._advance(last_offset_of(header))
        if kind is None:
            return True, None
        producer_id = header[PRODUCER_ID]
        has_batches = producer_id in self._with_batches
        if kind == ControlType.ABORT:
            self._with_batches.discard(producer_id)
            aborted = self._aborting.pop(producer_id, None)
            return (False, aborted) if has_batches and aborted is not None else (True, None)
        if kind == ControlType.COMMIT:
            self._with_batches.discard(producer_id)
            return not has_batches, None
        return False, None

    def ended_at(self, marker_offset: int) -> AbortedTransaction | None:
        """The index entry of a marker past the end of the round, where all batches are retained."""
        return self._by_marker.get(marker_offset)

    def _advance(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            aborted = heapq.heappop(self._upcoming)[1]
            self._aborting[aborted.producer_id] = aborted
