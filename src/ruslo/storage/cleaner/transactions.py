"""Which transactional batches and markers a round may drop (KIP-98, KIP-534).

Aborted data goes at once. A marker must outlive the last batch of its transaction, because consumers end the
transaction at it; then it stays for ``delete.retention.ms`` like a tombstone. The entry of an aborted
transaction moves to the new transaction index as long as any of its batches, be it an empty one, is left.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ruslo.records.batch import PRODUCER_ID, HeaderFields, last_offset_of
from ruslo.records.control import ControlType
from ruslo.storage.txn_index import AbortedTransaction


class TransactionWalk:
    """Follows the transactions through the batches of a round, in order."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._by_marker = {each.last_offset: each for each in aborted}
        self._coming = [(each.first_offset, each) for each in aborted]
        heapq.heapify(self._coming)
        self._aborting: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        """Producers of whose present transaction some batch was met."""

    def may_drop_data(self, header: HeaderFields) -> bool:
        """Whether a transactional data batch belongs to an aborted transaction."""
        self._advance(last_offset_of(header))
        self._with_batches.add(header[PRODUCER_ID])
        return header[PRODUCER_ID] in self._aborting

    def may_drop_marker(
        self, header: HeaderFields, kind: int | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Whether nothing depends on a marker any more, and the index entry to keep if something does.

        ``kind``: of its control record; None if it has been emptied before.
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
        """The index entry of a marker behind the end of the round, where everything stays as it is."""
        return self._by_marker.get(marker_offset)

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            aborted = heapq.heappop(self._coming)[1]
            self._aborting[aborted.producer_id] = aborted
