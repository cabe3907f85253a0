"""One transactional id: its logged state, and the soft state of its coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ruslo.machines.txns.metadata import LAST_EPOCH, NO_EPOCH, TxnMetadata
from ruslo.machines.txns.records import TxnRecord


class Transition(NamedTuple):
    """A state change of one transactional id, from the decision until its record is committed or given up."""

    record: TxnRecord
    last_epoch: int = NO_EPOCH
    fences: bool = False


@dataclass(slots=True, eq=False)
class Transaction:
    id: str
    metadata: TxnMetadata
    """The committed state, which a new coordinator would load."""
    last_epoch: int = NO_EPOCH
    """The epoch before the last bump, for a producer that retries because it missed a response (KIP-360).
    It is not in the log, so a new coordinator does not know it."""
    pending: Transition | None = None
    """The transition whose record is not committed yet; no other may begin. In Prepare* it is always set: it
    is the completion, whose markers are being written."""
    fence_failed: bool = False
    """The coordinator failed to write the epoch that fences the producer. No client received that epoch, so
    the next attempt uses it again; the old one stays fenced."""

    deadline_ms: int | None = None
    """While the state is Ongoing: the monotonic time at which the transaction times out."""

    @property
    def epoch(self) -> int:
        """The epoch that requests must carry."""
        return min(self.metadata.epoch + 1, LAST_EPOCH) if self.fence_failed else self.metadata.epoch

    @property
    def exists(self) -> bool:
        """Whether the log contains a record of this id."""
        return self.metadata.epoch != NO_EPOCH
