"""How many in-sync sets grow in one turn: a few at once, thousands in turns, none twice."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import cast

from ruslo.broker.partitions.isr_growth import PER_TURN, IsrGrowth
from ruslo.broker.partitions.replication import LeaderReplication
from ruslo.machines.replica.follower import Follower


class Led:
    """As ``LeaderReplication`` is called."""

    def __init__(self, grown: list[Led]) -> None:
        self._grown = grown

    def grow(self, follower: Follower) -> None:
        self._grown.append(self)


async def test_thousands_grow_in_turns_and_each_once() -> None:
    growth, follower = IsrGrowth(), Follower(2, 0)
    grown: list[Led] = []
    led = [Led(grown) for _ in range(3 * PER_TURN + 5)]
    for each in led:
        growth.consider(cast(LeaderReplication, each), follower)
    assert grown == led[:PER_TURN], "the first do not wait"
    # Another fetch of the same follower comes before all are through.
    for each in led[PER_TURN:]:
        growth.consider(cast(LeaderReplication, each), follower)
    counts = [len(grown)]
    while len(grown) < len(led):
        await asyncio.sleep(0)
        counts.append(len(grown))
    assert max(after - before for before, after in pairwise(counts)) <= PER_TURN
    assert grown == led
    for _ in range(3):
        await asyncio.sleep(0)
    growth.consider(cast(LeaderReplication, led[0]), follower)
    assert len(grown) == len(led) + 1, "at once again, when there is nobody to wait for"
