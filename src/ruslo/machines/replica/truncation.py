"""Where a follower truncates its log when it diverges from the leader's (KIP-101, KIP-279, KIP-595).

The leader names its largest epoch that is not above the follower's, and the end offset of that epoch. The
follower keeps what both logs may share. If it does not have that epoch, only its own next lower epoch can be
common, and it fetches again from there. Each round removes at least one epoch, so the rounds end.
"""

from __future__ import annotations

from typing import Protocol

NO_EPOCH = -1


class EpochHistory(Protocol):
    """The leader epochs of the follower's own log."""

    def end_of(self, epoch: int, log_end_offset: int, /) -> tuple[int, int]:
        """The largest own epoch that is not above ``epoch``, and the first offset after it; -1 if none."""
        ...


def truncation_offset(own: EpochHistory, own_end: int, leader_epoch: int, leader_end: int) -> int:
    """The offset to truncate to; ``leader_epoch`` and ``leader_end`` are the leader's diverging epoch."""
    epoch, end = own.end_of(leader_epoch, own_end)
    if epoch == NO_EPOCH:
        return min(leader_end, own_end)
    if epoch < leader_epoch:
        return min(end, own_end)
    return min(end, leader_end, own_end)
