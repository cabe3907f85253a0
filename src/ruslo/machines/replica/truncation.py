"""Where a follower cuts its log when the leader's history is another one (KIP-101, KIP-279, KIP-595).

The leader names its largest epoch that is not above the one the follower asked with, and where that ends. The
follower keeps what both may share. If it does not know the epoch, only its own next lower one can be common,
and it asks again from there; so each round takes away at least one epoch, and the rounds end.
"""

from __future__ import annotations

from typing import Protocol

NO_EPOCH = -1


class EpochHistory(Protocol):
    """The epochs of the follower's own log."""

    def end_of(self, epoch: int, log_end_offset: int, /) -> tuple[int, int]:
        """The greatest own epoch that is not above ``epoch``, and the first offset after it; -1 if none."""
        ...


def truncation_offset(own: EpochHistory, own_end: int, leader_epoch: int, leader_end: int) -> int:
    """What the log is cut back to; ``leader_epoch`` and ``leader_end`` are the leader's diverging epoch."""
    epoch, end = own.end_of(leader_epoch, own_end)
    if epoch == NO_EPOCH:
        return min(leader_end, own_end)
    if epoch < leader_epoch:
        return min(end, own_end)
    return min(end, leader_end, own_end)
