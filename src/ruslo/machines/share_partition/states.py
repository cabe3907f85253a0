"""States of records in a share-partition, and how a consumer acknowledges a delivery (KIP-932)."""

from __future__ import annotations

from enum import IntEnum


class RecordState(IntEnum):
    """The values are those of the persisted state, except WAITING."""

    WAITING = -1
    """The record can be delivered later: its time has not come, or an earlier record of its key is in flight.
    It is persisted as AVAILABLE."""
    AVAILABLE = 0
    """The record can be delivered, again or for the first time."""
    ACQUIRED = 1
    """A consumer holds the acquisition lock of the record. This state is never persisted."""
    ACKNOWLEDGED = 2
    """A consumer processed the record; it is never delivered again."""
    ARCHIVING = 3
    """The record is undeliverable, and is being copied to the dead-letter topic of the group (KIP-1191)."""
    ARCHIVED = 4
    """The record is never delivered again: rejected, a gap, aborted, or its delivery limit is reached."""


class AcknowledgeType(IntEnum):
    GAP = 0
    """The offset has no record that the consumer could process."""
    ACCEPT = 1
    RELEASE = 2
    """Deliver the record again."""
    REJECT = 3
    RENEW = 4
    """The consumer is still processing the record: extend the acquisition lock (KIP-1222)."""


class AcquireMode(IntEnum):
    BATCH_OPTIMIZED = 0
    """The record limit is rounded up to whole batches."""
    RECORD_LIMIT = 1
    """The record limit is strict (KIP-1206)."""


TERMINAL_STATES = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""The start offset moves past records in these states."""
DELIVERED_STATES = TERMINAL_STATES | {RecordState.ARCHIVING}
"""Records in these states are never delivered again."""
