"""The state of a transactional id, as one record contains it."""

from __future__ import annotations

from typing import NamedTuple

from ruslo.machines.txns.states import TV0, TxnState
from ruslo.model.topics import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
LAST_EPOCH = 32_767
NO_TIMEOUT_MS = 2_147_483_647
"""The timeout of a two-phase commit transaction, which only its producer or an operator ends (KIP-939)."""
EXHAUSTED_FROM = LAST_EPOCH - 1
"""No producer gets the last epoch: it is reserved for the markers of the last transaction."""


class TxnMetadata(NamedTuple):
    """The value of one record."""

    producer_id: int
    epoch: int
    state: TxnState
    timeout_ms: int
    last_update_ms: int
    start_ms: int = NO_TIME
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the transition; the same one unless its epochs were exhausted."""
    next_producer_id: int = NO_PRODUCER_ID
    """In Prepare*: the next producer id, because the epochs of this one are exhausted."""
    client_version: int = TV0

    @property
    def is_exhausted(self) -> bool:
        return self.epoch >= EXHAUSTED_FROM

    @property
    def times_out(self) -> bool:
        return self.timeout_ms != NO_TIMEOUT_MS

    def moved(
        self,
        state: TxnState,
        now_ms: int,
        *,
        producer_id: int | None = None,
        epoch: int | None = None,
        timeout_ms: int | None = None,
        start_ms: int | None = None,
        partitions: frozenset[TopicPartition] | None = None,
        next_producer_id: int = NO_PRODUCER_ID,
        client_version: int | None = None,
    ) -> TxnMetadata:
        """The state after a transition; values that are not given stay the same."""
        return TxnMetadata(
            producer_id=self.producer_id if producer_id is None else producer_id,
            epoch=self.epoch if epoch is None else epoch,
            state=state,
            timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            last_update_ms=now_ms,
            start_ms=self.start_ms if start_ms is None else start_ms,
            partitions=self.partitions if partitions is None else partitions,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            client_version=self.client_version if client_version is None else client_version,
        )
