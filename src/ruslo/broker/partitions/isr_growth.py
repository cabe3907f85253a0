"""Followers that may have caught up: each may join the in-sync replicas of its partition.

When a broker comes back, its next fetch concerns thousands of partitions, so they are checked in slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.broker.scheduling.work_queue import WorkQueue
from ruslo.machines.replica.follower import Follower

if TYPE_CHECKING:
    from ruslo.broker.partitions.replication import LeaderReplication


class IsrGrowth:
    def __init__(self, scheduler: Scheduler) -> None:
        self._queue = WorkQueue(scheduler, priority=Priority.CLUSTER, name="ISR expansion")
        self._waiting: set[tuple[LeaderReplication, Follower]] = set()

    def consider(self, replication: LeaderReplication, follower: Follower) -> None:
        """Check the follower, now or in a later slice by what is known of it then."""
        if (replication, follower) not in self._waiting:
            self._waiting.add((replication, follower))
            self._queue.add(self._expand(replication, follower))

    def _expand(self, replication: LeaderReplication, follower: Follower) -> Steps[None]:
        self._waiting.discard((replication, follower))
        replication.grow(follower)
        yield
