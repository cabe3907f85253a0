"""ISR expansion of many partitions runs in slices, once for each partition."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import cast

from ruslo.broker.partitions.isr_expansion import IsrExpansion
from ruslo.broker.partitions.leader import PartitionLeader
from ruslo.machines.replica.follower import Follower
from tests.support.brokers.stepping import stepping_scheduler

PER_SLICE = 100


class Led:
    """A ``PartitionLeader`` that records its expansion."""

    def __init__(self, expanded: list[Led]) -> None:
        self._expanded = expanded

    def expand_isr(self, follower: Follower) -> None:
        self._expanded.append(self)


async def test_thousands_expand_in_slices_and_each_once() -> None:
    expansion, follower = IsrExpansion(stepping_scheduler(PER_SLICE)), Follower(2, 0)
    expanded: list[Led] = []
    led = [Led(expanded) for _ in range(3 * PER_SLICE + 5)]
    for each in led:
        expansion.schedule(cast(PartitionLeader, each), follower)
    assert 0 < len(expanded) < PER_SLICE, "the first partitions do not wait"
    assert expanded == led[: len(expanded)]
    # Another fetch of the same follower arrives before all partitions are checked.
    for each in led[len(expanded) :]:
        expansion.schedule(cast(PartitionLeader, each), follower)
    counts = [len(expanded)]
    while len(expanded) < len(led):
        await asyncio.sleep(0)
        counts.append(len(expanded))
    assert max(after - before for before, after in pairwise(counts)) <= PER_SLICE
    assert expanded == led
    for _ in range(3):
        await asyncio.sleep(0)
    expansion.schedule(cast(PartitionLeader, led[0]), follower)
    assert len(expanded) == len(led) + 1, "expansion is immediate again when no other partition waits"
