"""A partition while this broker leads it: the durable offset, the high watermark, acks, followers and the
ISR.

Two watermarks decide when an append is acknowledged:

- The durable offset is the end of the leader's own copy that is as durable as the topic requires: the log
  end, or the end of what is synced (``flush_policy``). acks=1 waits for it.
- The high watermark also waits for the followers in the ISR. acks=all waits for it. Of a sole replica the two
  are the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ruslo.broker.partitions.ack_wait import AckQueue
from ruslo.broker.partitions.flush_policy import FlushPolicy
from ruslo.broker.partitions.high_watermark import HighWatermark
from ruslo.broker.partitions.isr_expansion import IsrExpansion
from ruslo.broker.partitions.purgatory import DelayedFetches
from ruslo.broker.partitions.replication_quota import ReplicationQuota, is_throttled
from ruslo.machines.replica.follower import Follower
from ruslo.machines.replica.isr import Proposal
from ruslo.machines.replica.leader import AfterResponse, Brokers, LeaderReplica, Replicas
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.storage.log import Log


@dataclass(slots=True)
class IsrChanges:
    """How often the ISRs of the partitions led here have changed."""

    shrinks: int = 0
    expands: int = 0

    def count(self, size_before: int, size: int) -> None:
        self.shrinks += size < size_before
        self.expands += size > size_before


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """What all partitions of a broker share."""

    brokers: Brokers
    lag_ms: int
    clock: Clock
    propose: Callable[[PartitionLeader, Proposal], None]
    """Send an ISR to the controller; the response comes to ``PartitionLeader.on_isr_response``."""
    quota: ReplicationQuota
    """The rate at which this broker sends records to throttled replicas."""
    expansion: IsrExpansion
    isr_changes: IsrChanges = field(default_factory=IsrChanges)


@dataclass(slots=True, eq=False)
class PartitionLeader:
    """One uninterrupted leadership, possibly over several leader epochs: the log is not truncated during
    it.
    """

    _node_id: int
    log: Log
    _flush: FlushPolicy
    _high_watermark: HighWatermark
    first_epoch: int
    epoch_start_offset: int = 0
    """The log end offset when the present leader epoch began."""
    replication: LeaderReplica | None = None
    """The followers and the ISR; None while this broker has the only replica."""
    durable_offset: int = 0
    """Maintained while there are followers: the durable end of this broker's own copy."""
    commit_queue: AckQueue = field(default_factory=AckQueue)
    durable_queue: AckQueue = field(default_factory=AckQueue)
    follower_fetches: DelayedFetches = field(default_factory=dict)
    """Fetches of followers that wait for the next append."""
    _undurable_bytes: int = 0
    """Bytes that were appended since the durable offset last moved."""
    _deletions: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)
    """DeleteRecords requests that wait until the low watermark reaches an offset."""
    # Set with the first followers: most partitions of a single broker never have any.
    _settings: ReplicationSettings = field(init=False)
    _uncommitted: deque[tuple[int, int]] = field(init=False)
    """End offset and size of each append above the high watermark."""

    # -- metadata --------------------------------------------------------------------------------------------

    def apply(
        self,
        leader_epoch: int,
        replicas: Replicas | None,
        settings: ReplicationSettings | None,
        *,
        is_new_epoch: bool,
    ) -> None:
        """Begin a new epoch, or apply other replicas and another ISR within the same one.

        ``replicas``: None if this broker has the only one.
        """
        if not is_new_epoch and self.replication is not None and replicas is not None:
            size_before = len(self.isr)
            self.replication.update(replicas, self._settings.clock.monotonic_ms())
            self._on_isr_change(size_before)
            return
        if not is_new_epoch and self.replication is None and replicas is None:
            return
        self._drop_followers()
        if is_new_epoch:
            self.epoch_start_offset = self.log.end_offset
            self.log.assign_leader_epoch(leader_epoch)
        if replicas is not None:
            assert settings is not None, "followers need settings"
            self._settings = settings
            self._uncommitted = deque()
            self.durable_offset = self.log.high_watermark
            self.replication = LeaderReplica(
                replicas,
                settings.clock.monotonic_ms(),
                node_id=self._node_id,
                leader_epoch=leader_epoch,
                epoch_start_offset=self.epoch_start_offset,
                lag_ms=settings.lag_ms,
                brokers=settings.brokers,
            )
        # Recompute the durable offset for a new epoch or other replicas.
        self._undurable_bytes = 0
        durable_offset = self._flush.durable_when_elected()
        if durable_offset is not None:
            self._set_durable_offset(durable_offset)

    def _drop_followers(self) -> None:
        """Complete the requests that wait for followers."""
        self.replication = None
        while self._deletions:
            _, done = self._deletions.pop()
            if not done.done():
                done.set_result(None)
        self._wake_follower_fetches()

    def stop(self) -> None:
        """This broker no longer leads: clients have to find the new leader."""
        self._flush.stop_waiting()
        self._drop_followers()
        self.durable_queue.release_all()
        self.commit_queue.release_all()

    # -- producers -------------------------------------------------------------------------------------------

    @property
    def isr(self) -> tuple[int, ...]:
        return (self._node_id,) if self.replication is None else self.replication.isr.committed

    @property
    def has_min_isr(self) -> bool:
        return self.replication is None or not self.replication.is_under_min_isr(
            self.log.config.min_insync_replicas
        )

    def require_min_isr(self) -> None:
        """Raises KafkaError while the ISR is smaller than ``min.insync.replicas``."""
        if not self.has_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.log.partition} has {len(self.isr)} in-sync replicas "
                f"({', '.join(map(str, self.isr))}), min.insync.replicas is "
                f"{self.log.config.min_insync_replicas}",
            )

    def on_append(self, size: int) -> None:
        """Followers may read the append at once, consumers when the high watermark has passed it."""
        end_offset = self.log.end_offset
        if self.replication is not None:
            self._uncommitted.append((end_offset, size))
            for fetch in tuple(self.follower_fetches):
                fetch.on_append(size, size)
        elif not self._flush.syncs:
            self._high_watermark.advance(end_offset, size)
            if self.commit_queue.waits:
                self.commit_queue.release_up_to(end_offset)
            return
        if self._flush.syncs:
            self._undurable_bytes += size
            durable_offset = self._flush.durable_after_append()
            if durable_offset is not None:
                self._set_durable_offset(durable_offset)
        else:
            self._set_durable_offset(end_offset)

    def on_synced(self) -> None:
        self._set_durable_offset(self._flush.durable_after_sync())

    def _set_durable_offset(self, offset: int) -> None:
        size, self._undurable_bytes = self._undurable_bytes, 0
        self.durable_offset = offset
        if self.replication is None:
            self._commit(offset, size)
        self.durable_queue.release_up_to(offset)
        self.advance_high_watermark()

    def advance_high_watermark(self) -> None:
        """Advance the high watermark as far as the followers allow."""
        if self.replication is None:
            return
        now_ms = self._settings.clock.monotonic_ms()
        offset = self.replication.high_watermark(
            self.durable_offset, self.log.config.min_insync_replicas, now_ms
        )
        if offset > self.log.high_watermark:
            size = 0
            uncommitted = self._uncommitted
            while uncommitted and uncommitted[0][0] <= offset:
                size += uncommitted.popleft()[1]
            self._commit(offset, size)

    def _commit(self, high_watermark: int, size: int) -> None:
        self._high_watermark.advance(high_watermark, size)
        self.commit_queue.release_up_to(high_watermark)

    # -- followers -------------------------------------------------------------------------------------------

    def follower(self, broker_id: int, broker_epoch: int) -> Follower:
        """Raises KafkaError if the broker has no replica, or if its broker epoch is an old one."""
        follower = None if self.replication is None else self.replication.followers.get(broker_id)
        if follower is None or broker_epoch < follower.broker_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return follower

    def on_follower_fetch(
        self, follower: Follower, offset: int, log_start_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """A follower fetches from ``offset`` on, so it has everything before it."""
        log, replication = self.log, self.replication
        follower.on_fetch(offset, log_start_offset, broker_epoch, log.end_offset, now_ms)
        if self._deletions:
            self._complete_deletions()
        if log.high_watermark < log.end_offset:
            self.advance_high_watermark()
        if (
            replication is not None
            and follower.broker_id not in replication.isr.committed
            and replication.can_expand_isr(follower, log.start_offset, log.high_watermark)
        ):
            self._settings.expansion.schedule(self, follower)

    def expand_isr(self, follower: Follower) -> None:
        """Propose to add the follower, unless that has become impossible since it fetched."""
        replication = self.replication
        if replication is not None and replication.followers.get(follower.broker_id) is follower:
            proposal = replication.expand_isr(follower, self.log.start_offset, self.log.high_watermark)
            if proposal is not None:
                self._settings.propose(self, proposal)

    def shrink_isr(self) -> None:
        """Propose to remove followers that have fallen behind; called periodically."""
        if self.replication is not None:
            proposal = self.replication.shrink_isr(self.log.end_offset, self._settings.clock.monotonic_ms())
            if proposal is not None:
                self._settings.propose(self, proposal)

    def is_pending(self, proposal: Proposal) -> bool:
        return self.replication is not None and self.replication.isr.pending is proposal

    def on_isr_response(
        self, proposal: Proposal, error: ErrorCode, partition_epoch: int, isr: tuple[int, ...]
    ) -> AfterResponse:
        """The controller's response to a proposal."""
        if self.replication is None:
            return AfterResponse.DONE
        size_before = len(self.isr)
        after = self.replication.on_response(proposal, error, partition_epoch, isr)
        self._on_isr_change(size_before)
        return after

    def _on_isr_change(self, size_before: int) -> None:
        self._settings.isr_changes.count(size_before, len(self.isr))
        self._complete_deletions()
        self.advance_high_watermark()

    # -- throttling of followers -----------------------------------------------------------------------------

    def is_over_quota(self, follower: Follower) -> bool:
        """Whether a throttled replica has to wait for the replication quota."""
        return self._is_throttled(follower) and self._settings.quota.pause_ms() > 0

    def on_sent(self, follower: Follower, size: int) -> None:
        if self._is_throttled(follower):
            self._settings.quota.record(size)

    def _is_throttled(self, follower: Follower) -> bool:
        throttled = self.log.config.leader_replication_throttled_replicas
        return (
            bool(throttled)
            and follower.broker_id not in self.isr
            and is_throttled(throttled, self.log.partition.partition, follower.broker_id)
        )

    # -- DeleteRecords ---------------------------------------------------------------------------------------

    def when_deleted(self, offset: int) -> asyncio.Future[None] | None:
        """Done when the low watermark reaches ``offset``, or this broker no longer leads.

        None for a sole replica, which has nothing to wait for.
        """
        if self.replication is None:
            return None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deletions.append((offset, done))
        self._complete_deletions()
        # The response to a fetch carries the new log start offset, the next fetch confirms it.
        self._wake_follower_fetches()
        return done

    def _complete_deletions(self) -> None:
        if self.replication is None:
            return
        waiting, self._deletions = self._deletions, []
        low_watermark = self.replication.low_watermark(self.log.start_offset)
        for offset, done in waiting:
            if done.done():
                continue
            if offset <= low_watermark:
                done.set_result(None)
            else:
                self._deletions.append((offset, done))

    def _wake_follower_fetches(self) -> None:
        for fetch in tuple(self.follower_fetches):
            fetch.wake()
