"""What a share-partition is given and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.machines.share_partition.breaker import NO_BREAKER, BreakerSettings
from ruslo.machines.share_partition.states import AcknowledgeType, AcquireMode, RecordState


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """Limits of one share group: the group's configs, within the bounds of the broker's."""

    max_record_locks: int = 2_000
    """Limit of the records between the start offset and the end offset."""
    delivery_limit: int = 5
    lock_duration_ms: int = 30_000
    allows_renewal: bool = True
    has_dead_letters: bool = False
    """Whether undeliverable records are copied to a dead-letter topic before they are archived (KIP-1191)."""
    retry_backoff_ms: int = 0
    """The wait before the second delivery of a record; it doubles with each further delivery."""
    retry_backoff_max_ms: int = 60_000
    breaker: BreakerSettings = NO_BREAKER

    @property
    def undeliverable_state(self) -> RecordState:
        return RecordState.ARCHIVING if self.has_dead_letters else RecordState.ARCHIVED

    def backoff_ms(self, delivery_count: int) -> int:
        """The wait before a record that was delivered so often is delivered again."""
        if self.retry_backoff_ms == 0:
            return 0
        return min(self.retry_backoff_ms << min(delivery_count - 1, 32), self.retry_backoff_max_ms)


class Locks(NamedTuple):
    """What the members of the group hold."""

    records: int
    """Records that are acquired."""
    first_deadline_ms: int | None
    """When the first of their locks expires; None without a lock."""
    deliveries_max: int
    """The highest delivery count of a record in flight."""


class OffsetRange(NamedTuple):
    first: int
    last: int
    """Inclusive, as everywhere in the share protocol."""


class AcquiredRange(NamedTuple):
    first: int
    last: int
    delivery_count: int


class AcquireLimits(NamedTuple):
    max_records: int
    batch_size: int = 500
    """New records are divided at the batches of the log into ranges of at least this size."""
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


class DeliveryRule(NamedTuple):
    """What a group demands for the delivery of one record."""

    offset: int
    key: int | None
    """A hash of the record's key; records with equal hashes are delivered one after the other."""
    not_before_ms: int
    """On the clock of the share-partition; 0: no delay."""


class FetchedBatches(NamedTuple):
    """What the log returned at the next fetch offset."""

    fetch_offset: int
    batches: Sequence[OffsetRange]
    """The offsets of the batches, in order; the first one may begin before the fetch offset."""
    aborted: Sequence[OffsetRange] = ()
    """Batches of aborted transactions, in order. A group with read_committed does not deliver them."""
    rules: Sequence[DeliveryRule] = ()
    """The records that must be delivered in the order of their keys, or not before a time; in order."""


class AcknowledgementBatch(NamedTuple):
    first: int
    last: int
    types: Sequence[int]
    """One value of AcknowledgeType for the whole range, or one for each offset."""


class StateBatch(NamedTuple):
    """A range of offsets in the persisted state."""

    first: int
    last: int
    state: int
    delivery_count: int


class StateWrite(NamedTuple):
    """A write to the share coordinator. Its result is passed to ``SharePartition.on_written``."""

    write_id: int
    start_offset: int
    delivery_complete_count: int
    """Records after the start offset that need no further delivery; the lag of the group excludes them."""
    batches: Sequence[StateBatch]


class TypeRun(NamedTuple):
    """Neighbouring offsets of an acknowledgement batch with the same type."""

    first: int
    last: int
    type: AcknowledgeType


PERSISTED_STATES = frozenset(
    {RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED}
)
