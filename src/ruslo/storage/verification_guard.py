"""The verification guard: a transactional batch waits until its transaction is verified (KIP-890).

A batch that would start a transaction in a partition waits until the coordinator has verified it, and its
producer has a guard meanwhile. A marker, or the batch that starts the transaction, removes the guard. If the
guard was removed while a batch waited, the batch must not be appended: its transaction has ended, so no
marker would ever follow it.
"""

from __future__ import annotations


class VerificationGuard:
    """A guard is compared by identity, and only the leader has it."""

    __slots__ = ("created_ms", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, created_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """The lowest sequence of all batches that wait: no other batch may start the transaction."""
        self.created_ms = created_ms

    def note(self, epoch: int, sequence: int) -> None:
        """Add a batch that waits under this guard."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
