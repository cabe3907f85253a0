"""A follower's epochs, as (epoch, start offset) lists, against the diverging epoch of a leader."""

from __future__ import annotations

import pytest

from ruslo.machines.replica.truncation import truncation_offset
from ruslo.storage.leader_epochs import LeaderEpochCache


@pytest.mark.parametrize(
    ("own", "own_end", "leader_epoch", "leader_end", "expected"),
    [
        # The same epoch, in which the leader wrote less: truncate to the leader's end.
        ([(0, 0), (2, 10)], 20, 2, 15, 15),
        # The same epoch, in which the leader wrote more: keep the epoch, remove the later ones.
        ([(0, 0), (2, 10), (3, 14)], 20, 2, 18, 14),
        # The leader's epoch is unknown to the follower: only the next lower one can be common.
        ([(0, 0), (1, 5), (4, 12)], 20, 3, 17, 12),
        # Every epoch of the follower is later than the leader's: nothing is common.
        ([(5, 3)], 20, 2, 8, 3),
        # The follower knows no epoch.
        ([], 20, 2, 8, 8),
        ([], 4, 2, 8, 4),
    ],
)
def test_where_the_follower_truncates(
    own: list[tuple[int, int]], own_end: int, leader_epoch: int, leader_end: int, expected: int
) -> None:
    assert truncation_offset(LeaderEpochCache(own), own_end, leader_epoch, leader_end) == expected
