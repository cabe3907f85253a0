"""ISR expansions: followers that may have caught up are checked in slices.

When a broker comes back, its next fetch may expand the ISRs of thousands of partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.broker.scheduling.work_queue import WorkQueue
from ruslo.machines.replica.follower import Follower

if TYPE_CHECKING:
    from ruslo.broker.partitions.leader import PartitionLeader


class IsrExpansion:
    def __init__(self, scheduler: Scheduler) -> None:
        self._queue = WorkQueue(scheduler, priority=Priority.CLUSTER, name="ISR expansion")
        self._waiting: set[tuple[PartitionLeader, Follower]] = set()

    def schedule(self, leader: PartitionLeader, follower: Follower) -> None:
        """Expand the ISR, now or in a later slice by what the leader knows of the follower then."""
        if (leader, follower) not in self._waiting:
            self._waiting.add((leader, follower))
            self._queue.add(self._expand(leader, follower))

    def _expand(self, leader: PartitionLeader, follower: Follower) -> Steps[None]:
        self._waiting.discard((leader, follower))
        leader.expand_isr(follower)
        yield
