"""The leader's side of replication: the high watermark and the in-sync set (ISR) of one partition.

High watermark: the least end offset among the leader, the members of the ISR, those it is growing or
shrinking by, and followers that have caught up and are about to be proposed. It never falls, and it stands
still while the ISR is smaller than ``min.insync.replicas``: what has fewer copies than promised is not shown
to anybody (KIP-966).

A follower is proposed for the ISR when it has reached the high watermark and the start of this leader's
epoch, has deleted what the leader has (or else deleted records would come back if it led next), its broker is
neither fenced nor stopping, and its fetches come from the registration that the metadata know (KIP-903: a
broker that came back from a crash must not be counted for what it had before). A member leaves when it has
not been caught up for ``replica.lag.time.max.ms``.

What the answer to a proposal means:

=============================================  ==========================================================
no error                                       the ISR as answered, if its partition epoch is news
NOT_CONTROLLER, other errors of the transport  ask again (the driver finds the controller first)
INELIGIBLE_REPLICA                             back to the committed ISR; the follower may qualify later
NEW_LEADER_ELECTED and all that follow         wait for the metadata, which has moved on
FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION,
INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
UNKNOWN_TOPIC_ID
=============================================  ==========================================================
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Protocol

from ruslo.machines.replica.follower import UNKNOWN_OFFSET, Follower
from ruslo.machines.replica.isr import InSyncSet, Member, Proposal
from ruslo.model.errors import ErrorCode

LEADER_MEMBER_EPOCH = -1
LONG_AGO_MS = -(1 << 62)
"""So long ago that nobody has been caught up since."""


class Brokers(Protocol):
    """The brokers of the cluster as the newest metadata have them."""

    def eligible_epoch(self, broker_id: int, /) -> int | None:
        """The epoch of its registration; None while it is fenced, stopping, or not registered."""
        ...


class AfterAnswer(enum.Enum):
    """What the driver does when the controller has answered a proposal."""

    DONE = "the ISR is settled"
    ASK_AGAIN = "the same proposal, to whoever is the controller now"
    AWAIT_METADATA = "the metadata will say"


_AWAIT_METADATA = frozenset(
    {
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class LeaderReplica:
    """One for each epoch in which this broker leads a partition that has followers."""

    def __init__(
        self,
        *,
        node_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        epoch_start_offset: int,
        lag_ms: int,
        brokers: Brokers,
        now_ms: int,
    ) -> None:
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = InSyncSet(isr)
        self.lag_ms = lag_ms
        self._brokers = brokers
        self._epoch_start_offset = epoch_start_offset
        self.followers: dict[int, Follower] = {}
        self._keep_followers(replicas, now_ms)

    # -- what the metadata say -------------------------------------------------------------------------------

    def update(
        self, partition_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...], now_ms: int
    ) -> None:
        """The same leader in the same epoch, but its replicas or its ISR have changed."""
        if partition_epoch <= self.partition_epoch:
            return
        self.partition_epoch = partition_epoch
        left = set(self.isr.committed).difference(isr)
        self.isr.commit(isr)
        self._keep_followers(replicas, now_ms)
        for broker_id in left:
            if broker_id in self.followers:
                # The controller knows why, its directory has failed, say. Until it catches up once more
                # nobody waits for it.
                self.followers[broker_id].caught_up_ms = LONG_AGO_MS

    def _keep_followers(self, replicas: Iterable[int], now_ms: int) -> None:
        in_sync = self.isr.committed
        self.followers = {
            replica: self.followers.get(replica)
            or Follower(replica, now_ms if replica in in_sync else LONG_AGO_MS)
            for replica in replicas
            if replica != self.node_id
        }

    # -- the high watermark ----------------------------------------------------------------------------------

    def high_watermark(self, leader_end: int, min_insync_replicas: int, now_ms: int) -> int:
        """How far it may go now; less than it is means that it stays."""
        if self.is_under_min_isr(min_insync_replicas):
            return UNKNOWN_OFFSET
        high_watermark = leader_end
        maximal = self.isr.maximal
        for follower in self.followers.values():
            if follower.end_offset < high_watermark and (
                follower.broker_id in maximal or self._is_about_to_join(follower, leader_end, now_ms)
            ):
                high_watermark = follower.end_offset
        return high_watermark

    def low_watermark(self, leader_start: int) -> int:
        """Before it nobody who may lead next has any record left, as far as they have said."""
        maximal = self.isr.maximal
        starts = (each.log_start_offset for each in self.followers.values() if each.broker_id in maximal)
        return min((leader_start, *starts))

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """More replicas than there are cannot be asked for."""
        return len(self.isr.committed) < min(min_insync_replicas, len(self.followers) + 1)

    def _is_about_to_join(self, follower: Follower, leader_end: int, now_ms: int) -> bool:
        """If the high watermark ran away from those who catch up, they never would."""
        return follower.is_caught_up(leader_end, now_ms, self.lag_ms) and self._is_eligible(follower)

    def _is_eligible(self, follower: Follower) -> bool:
        epoch = self._brokers.eligible_epoch(follower.broker_id)
        return epoch is not None and epoch == follower.broker_epoch

    # -- the in-sync set -------------------------------------------------------------------------------------

    def growth(self, follower: Follower, leader_start: int, high_watermark: int) -> Proposal | None:
        """The proposal that takes in ``follower``, by what it said when it last fetched."""
        if not self.may_grow(follower, leader_start, high_watermark):
            return None
        return self._propose((*self.isr.committed, follower.broker_id))

    def may_grow(self, follower: Follower, leader_start: int, high_watermark: int) -> bool:
        return (
            self.isr.pending is None
            and follower.broker_id not in self.isr.committed
            and follower.end_offset >= max(high_watermark, self._epoch_start_offset)
            and follower.log_start_offset >= leader_start
            and self._is_eligible(follower)
        )

    def shrinkage(self, leader_end: int, now_ms: int) -> Proposal | None:
        """The proposal that leaves out members that have fallen behind."""
        if self.isr.pending is not None:
            return None
        behind = {
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in self.isr.maximal
            and not follower.is_caught_up(leader_end, now_ms, self.lag_ms)
        }
        if not behind:
            return None
        return self._propose(tuple(each for each in self.isr.committed if each not in behind))

    def _propose(self, isr: tuple[int, ...]) -> Proposal:
        members = tuple(Member(broker_id, self._fetch_epoch(broker_id)) for broker_id in isr)
        proposal = Proposal(self.leader_epoch, self.partition_epoch, members)
        self.isr.propose(proposal)
        return proposal

    def _fetch_epoch(self, broker_id: int) -> int:
        if broker_id == self.node_id:
            return LEADER_MEMBER_EPOCH
        return self.followers[broker_id].broker_epoch

    def answered(
        self, proposal: Proposal, error: ErrorCode, partition_epoch: int, isr: tuple[int, ...], now_ms: int
    ) -> AfterAnswer:
        """What came back for a proposal of this leader; the last two are of an answer without error."""
        if self.isr.pending is not proposal:
            return AfterAnswer.DONE
        if error is ErrorCode.NONE:
            if partition_epoch > self.partition_epoch:
                self.partition_epoch = partition_epoch
                self.isr.commit(isr)
            else:
                # Nothing had to be changed, so nobody will hear of it through the metadata.
                self.isr.withdraw()
            return AfterAnswer.DONE
        if error is ErrorCode.INELIGIBLE_REPLICA:
            self.isr.withdraw()
            return AfterAnswer.DONE
        if error in _AWAIT_METADATA:
            return AfterAnswer.AWAIT_METADATA
        return AfterAnswer.ASK_AGAIN
