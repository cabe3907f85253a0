"""One transactional id: what the log says of it, and the little beside that only its coordinator knows."""

from __future__ import annotations

from dataclasses import dataclass

from ruslo.machines.txns.metadata import LAST_EPOCH, NO_EPOCH, TxnMetadata
from ruslo.machines.txns.record_bytes import RecordBytes


@dataclass(slots=True, eq=False)
class Transaction:
    id: str
    metadata: TxnMetadata
    """Committed: what a new coordinator would find."""
    last_epoch: int = NO_EPOCH
    """The epoch before the last bump, for a producer that repeats itself because it missed the answer
    (KIP-360). Not in the log: a new coordinator knows none."""
    pending: Transition | None = None
    """A transition on its way into the log; while there is one no other may begin. In Prepare* there always
    is: the completion, whose markers are being written."""
    fence_failed: bool = False
    """The coordinator set out to fence the producer and could not write it. Nobody was told the new epoch, so
    the next try uses it again; the old one stays refused."""

    late_from_ms: int | None = None
    """While it is Ongoing: when its time is up, on the clock of deadlines."""

    @property
    def epoch(self) -> int:
        """What a producer must have to be heard."""
        return min(self.metadata.epoch + 1, LAST_EPOCH) if self.fence_failed else self.metadata.epoch

    @property
    def exists(self) -> bool:
        """Whether anything of this id is in the log yet."""
        return self.metadata.epoch != NO_EPOCH


@dataclass(slots=True, eq=False)
class Transition:
    """One step of one id, from the decision until its record is committed or given up."""

    transaction: Transaction
    to: TxnMetadata | None
    """None: the id is forgotten."""
    record: RecordBytes
    last_epoch: int = NO_EPOCH
    fences: bool = False

    @property
    def size(self) -> int:
        """Bytes that its record adds to a batch, nearly."""
        key, value = self.record
        return len(key) + (0 if value is None else len(value))
