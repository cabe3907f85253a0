"""What one record says of a transactional id."""

from __future__ import annotations

from typing import NamedTuple

from ruslo.machines.txns.states import TV0, TxnState
from ruslo.model.topics import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
LAST_EPOCH = 32_767
EXHAUSTED_FROM = LAST_EPOCH - 1
"""No producer is given the last epoch: it is kept for the markers that end its last transaction."""


class TxnMetadata(NamedTuple):
    """A state as it stands in one record."""

    producer_id: int
    epoch: int
    state: TxnState
    timeout_ms: int
    last_update_ms: int
    start_ms: int = NO_TIME
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before the transition that led here; the same one unless epochs had run out."""
    next_producer_id: int = NO_PRODUCER_ID
    """In Prepare*: the id that the producer goes on with, because epochs have run out."""
    client_version: int = TV0

    @property
    def is_exhausted(self) -> bool:
        return self.epoch >= EXHAUSTED_FROM

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
        """The state after a transition; what is not named stays as it is."""
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
