"""States of records in a share-partition, and how a consumer acknowledges a delivery (KIP-932)."""

from __future__ import annotations

from enum import IntEnum


class RecordState(IntEnum):
    """The values are those of the persisted state; Kafka skips 3."""

    AVAILABLE = 0
    """The record can be delivered, again or for the first time."""
    ACQUIRED = 1
    """A consumer holds the acquisition lock of the record. This state is never persisted."""
    ACKNOWLEDGED = 2
    """A consumer processed the record; it is never delivered again."""
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

STATE_AFTER = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""The state of a record after its acknowledgement. RENEW does not change it."""
