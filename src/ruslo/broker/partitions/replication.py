"""A partition that this broker leads and others follow: what an append, a fetch and a sync mean then.

Two watermarks: the durable offset of this broker's own copy (the end of the log, or of what is synced), and
the high watermark, which also waits for the followers. acks=1 waits for the first, acks=all for the second.
The partition keeps both, and the acks that wait for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ruslo.broker.partitions.isr_growth import IsrGrowth
from ruslo.broker.partitions.purgatory import Readers
from ruslo.broker.partitions.replication_quota import ReplicationQuota, is_throttled
from ruslo.machines.replica.follower import Follower
from ruslo.machines.replica.isr import Proposal
from ruslo.machines.replica.leader import AfterAnswer, Brokers, LeaderReplica
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ruslo.broker.partitions.partition import Partition


class Replicas(NamedTuple):
    """Who holds a partition, as the metadata say."""

    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(slots=True)
class IsrChanges:
    """How often in-sync sets have changed while they were led here, whoever wanted it."""

    shrinks: int = 0
    expands: int = 0

    def note(self, size_before: int, size: int) -> None:
        self.shrinks += size < size_before
        self.expands += size > size_before


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """What all partitions of a broker share."""

    brokers: Brokers
    lag_ms: int
    clock: Clock
    propose: Callable[[Partition, Proposal], None]
    """Ask the controller for another in-sync set; the answer comes through ``LeaderReplication.answered``."""
    quota: ReplicationQuota
    """Of what this broker sends to throttled replicas."""
    growth: IsrGrowth
    isr_changes: IsrChanges = field(default_factory=IsrChanges)


class LeaderReplication:
    __slots__ = (
        "_deletions",
        "_partition",
        "_settings",
        "_uncommitted",
        "machine",
        "readers",
    )

    def __init__(self, partition: Partition, replicas: Replicas, settings: ReplicationSettings) -> None:
        self._partition = partition
        self._settings = settings
        self.machine = LeaderReplica(
            node_id=partition.node_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=replicas.partition_epoch,
            replicas=replicas.replicas,
            isr=replicas.isr,
            epoch_start_offset=partition.epoch_start,
            lag_ms=settings.lag_ms,
            brokers=settings.brokers,
            now_ms=settings.clock.monotonic_ms(),
        )
        self.readers: Readers = {}
        """Followers that wait for the next append."""
        self._uncommitted: deque[tuple[int, int]] = deque()
        """End offset and size of what was appended above the high watermark."""
        self._deletions: list[tuple[int, asyncio.Future[None]]] = []
        """Who waits until the in-sync replicas have deleted what lies before an offset."""

    @property
    def isr(self) -> tuple[int, ...]:
        return self.machine.isr.committed

    def update(self, replicas: Replicas) -> None:
        """The metadata have a new in-sync set, or other replicas."""
        now_ms = self._settings.clock.monotonic_ms()
        before = len(self.isr)
        self.machine.update(replicas.partition_epoch, replicas.replicas, replicas.isr, now_ms)
        self._settings.isr_changes.note(before, len(self.isr))
        self._settle_deletions()
        self.advance()

    # -- producers -------------------------------------------------------------------------------------------

    def require_min_isr(self) -> None:
        """Raises KafkaError while fewer replicas are in sync than ``min.insync.replicas``."""
        partition = self._partition
        if self.machine.is_under_min_isr(partition.min_insync_replicas):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{partition.topic}-{partition.index} has {len(self.isr)} in-sync replicas "
                f"({', '.join(map(str, self.isr))}), min.insync.replicas is {partition.min_insync_replicas}",
            )

    @property
    def has_min_isr(self) -> bool:
        return not self.machine.is_under_min_isr(self._partition.min_insync_replicas)

    def appended(self, end_offset: int, size: int) -> None:
        """Followers may have it at once; readers wait for the high watermark."""
        self._uncommitted.append((end_offset, size))
        for reader in tuple(self.readers):
            reader.on_append(size, size)

    def advance(self) -> None:
        """Move the high watermark as far as the followers allow."""
        partition = self._partition
        offset = self.machine.high_watermark(
            partition.durable_offset, partition.min_insync_replicas, self._settings.clock.monotonic_ms()
        )
        if offset > partition.log.high_watermark:
            size = 0
            uncommitted = self._uncommitted
            while uncommitted and uncommitted[0][0] <= offset:
                size += uncommitted.popleft()[1]
            partition.advance(offset, size)

    # -- followers -------------------------------------------------------------------------------------------

    def follower(self, broker_id: int, broker_epoch: int) -> Follower:
        """Who fetches; raises KafkaError if it is no replica, or a registration of it that is over."""
        follower = self.machine.followers.get(broker_id)
        if follower is None or broker_epoch < follower.broker_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return follower

    def fetched(
        self, follower: Follower, offset: int, log_start_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """A follower asks for what comes from ``offset`` on, so it has what lies before."""
        log = self._partition.log
        follower.fetched(offset, log_start_offset, broker_epoch, log.end_offset, now_ms)
        if self._deletions:
            self._settle_deletions()
        if log.high_watermark < log.end_offset:
            self.advance()
        machine = self.machine
        if follower.broker_id not in machine.isr.committed and machine.may_grow(
            follower, log.start_offset, log.high_watermark
        ):
            self._settings.growth.consider(self, follower)

    def grow(self, follower: Follower) -> None:
        """Propose to take it in, if it may still be: all this may be over since it fetched."""
        if self._partition.replication is self and self.machine.followers.get(follower.broker_id) is follower:
            log = self._partition.log
            proposal = self.machine.growth(follower, log.start_offset, log.high_watermark)
            if proposal is not None:
                self._settings.propose(self._partition, proposal)

    def must_wait(self, follower: Follower) -> bool:
        """Whether a throttled replica has had its share for now."""
        return self._is_throttled(follower) and self._settings.quota.pause_ms() > 0

    def sent(self, follower: Follower, size: int) -> None:
        if self._is_throttled(follower):
            self._settings.quota.record(size)

    def _is_throttled(self, follower: Follower) -> bool:
        throttled = self._partition.log.config.leader_replication_throttled_replicas
        return (
            bool(throttled)
            and follower.broker_id not in self.isr
            and is_throttled(throttled, self._partition.index, follower.broker_id)
        )

    def drop_laggards(self) -> None:
        """From time to time: who has fallen behind leaves the in-sync set."""
        now_ms = self._settings.clock.monotonic_ms()
        proposal = self.machine.shrinkage(self._partition.log.end_offset, now_ms)
        if proposal is not None:
            self._settings.propose(self._partition, proposal)

    def answered(
        self, proposal: Proposal, error: ErrorCode, partition_epoch: int, isr: tuple[int, ...]
    ) -> AfterAnswer:
        """The controller's word on a proposal."""
        now_ms = self._settings.clock.monotonic_ms()
        before = len(self.isr)
        after = self.machine.answered(proposal, error, partition_epoch, isr, now_ms)
        self._settings.isr_changes.note(before, len(self.isr))
        self._settle_deletions()
        self.advance()
        return after

    # -- deletions -------------------------------------------------------------------------------------------

    def when_deleted(self, offset: int) -> asyncio.Future[None]:
        """Done when no in-sync replica has records before ``offset``, or this broker leads no more."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deletions.append((offset, done))
        self._settle_deletions()
        # The news go with an answer, and what a follower has made of them comes with its next fetch.
        for reader in tuple(self.readers):
            reader.wake()
        return done

    def _settle_deletions(self) -> None:
        waiting, self._deletions = self._deletions, []
        low_watermark = self.machine.low_watermark(self._partition.log.start_offset)
        for offset, done in waiting:
            if done.done():
                continue
            if offset <= low_watermark:
                done.set_result(None)
            else:
                self._deletions.append((offset, done))

    def dismiss(self) -> None:
        """This broker does not lead any more: whoever waits looks for the new leader."""
        while self._deletions:
            _, done = self._deletions.pop()
            if not done.done():
                done.set_result(None)
        for reader in tuple(self.readers):
            reader.wake()
