"""What keeps a transactional batch out of the log until its transaction is known to be open (KIP-890).

A batch that would begin a transaction in a partition waits while the coordinator is asked, and its producer
holds a guard meanwhile. A marker, or the batch that does begin the transaction, takes the guard away. So a
batch that comes back with a guard which is no longer there has been overtaken; it must not be left hanging at
the end of the log, where no marker will ever reach it.
"""

from __future__ import annotations


class VerificationGuard:
    """Its identity is the token; it is leader's memory only."""

    __slots__ = ("created_ms", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, created_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Of all batches that asked: none of the later ones may be the first in the log."""
        self.created_ms = created_ms

    def note(self, epoch: int, sequence: int) -> None:
        """One more batch asks under this guard."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
