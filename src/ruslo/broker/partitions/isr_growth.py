"""Followers that may have caught up, looked at a few in each turn of the event loop.

When a broker comes back, thousands of in-sync sets are to grow with its next fetch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ruslo.machines.replica.follower import Follower

if TYPE_CHECKING:
    from ruslo.broker.partitions.replication import LeaderReplication

PER_TURN = 100


class IsrGrowth:
    def __init__(self) -> None:
        self._left = PER_TURN
        """How many may still be looked at in this turn."""
        self._waiting: dict[tuple[LeaderReplication, Follower], None] = {}
        self._turn_is_due = False

    def consider(self, replication: LeaderReplication, follower: Follower) -> None:
        """Now, or in one of the next turns by what is known of the follower then."""
        if self._left > 0 and not self._waiting:
            self._left -= 1
            replication.grow(follower)
        else:
            self._waiting[replication, follower] = None
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn_is_due = False
        self._left = PER_TURN
        for replication, follower in list(self._waiting)[:PER_TURN]:
            del self._waiting[replication, follower]
            self._left -= 1
            replication.grow(follower)
        if self._waiting:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)
