"""One share-partition while this broker leads its partition.

=========  =================================================================================================
loading    ``machine`` is None: its state is being read from the share coordinator
active     ``machine`` decides; writes go to the share coordinator one after the other
failed     ``failure`` is set: loading failed, or another leader or state epoch has replaced this one
=========  =================================================================================================

A failed share-partition is not active again: the next fetch loads another one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.purgatory import DelayedFetches
from ruslo.broker.share_partitions.group_config import ShareGroupConfig
from ruslo.machines.share_coordinator.records import UNKNOWN_EPOCH, ShareKey
from ruslo.machines.share_partition.breaker import BreakerState
from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.values import StateWrite
from ruslo.model.errors import KafkaError

Written: TypeAlias = asyncio.Future[KafkaError | None]
"""Done when a write is persisted, with None, or has failed."""


class QueuedWrite(NamedTuple):
    write: StateWrite
    written: Written | None
    """None: no request waits for it."""


@dataclass(slots=True, eq=False)
class LedSharePartition:
    key: ShareKey
    partition: Partition
    config: ShareGroupConfig
    leader_epoch: int
    """The leader epoch of the partition for which the state was loaded."""
    used_ms: int
    """The last fetch or acknowledgement, on the monotonic clock."""
    created_ns: int
    """When loading began, on the monotonic clock."""
    state_epoch: int = UNKNOWN_EPOCH
    machine: SharePartition | None = None
    failure: KafkaError | None = None
    delayed_fetches: DelayedFetches = field(default_factory=dict)
    """Fetches that wait for records of this share-partition to become available."""
    queued_writes: deque[QueuedWrite] = field(default_factory=deque)
    writes_in_progress: list[QueuedWrite] = field(default_factory=list)
    is_copying: bool = False
    """Whether undeliverable records are being copied to the dead-letter topic."""
    rejected: set[int] = field(default_factory=set)
    """Offsets that a member has rejected and that are not archived yet, if the group has dead letters."""
    breaker_state: BreakerState = BreakerState.CLOSED
    """As it was last logged."""
    lock_timeouts: int = 0
    """Records whose acquisition lock has expired."""

    def __str__(self) -> str:
        return f"{self.key.group_id}:{self.partition}"

    @property
    def is_current(self) -> bool:
        """Whether this broker leads the partition in the same leader epoch."""
        partition = self.partition
        return partition.is_leader and partition.leader_epoch == self.leader_epoch and not partition.gone

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when the share-partition is unloaded: no lock is held, all is written."""
        machine = self.machine
        return (
            machine is not None
            and machine.deadline_ms() is None
            and not self.queued_writes
            and not self.writes_in_progress
            and not self.is_copying
        )

    @property
    def readable_end(self) -> int:
        """The end of what the group may read."""
        log = self.partition.log
        return log.last_stable_offset if self.config.is_read_committed else log.high_watermark

    def configure(self, config: ShareGroupConfig) -> None:
        self.config = config
        if self.machine is not None:
            self.machine.settings = config.settings

    def fail(self, error: KafkaError) -> None:
        """Fail all that waits, except for writes that the share coordinator has got already."""
        self.failure = error
        while self.queued_writes:
            _, written = self.queued_writes.popleft()
            if written is not None and not written.done():
                written.set_result(error)
        self.wake_all_fetches()

    def wake_fetches(self) -> None:
        """Let waiting fetches look again if there may be records for them."""
        machine = self.machine
        if (
            self.delayed_fetches
            and machine is not None
            and machine.can_acquire()
            and machine.next_fetch_offset() < self.readable_end
        ):
            self.wake_all_fetches()

    def wake_all_fetches(self) -> None:
        for fetch in tuple(self.delayed_fetches):
            fetch.wake()
