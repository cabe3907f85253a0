"""The leader's side of replication: the high watermark and the in-sync replicas (ISR) of one partition.

The high watermark is the smallest log end offset among

- the leader,
- the members of the maximal ISR: the committed ISR and a pending change of it,
- followers that have caught up and are about to join the ISR.

It never falls. It does not advance while the ISR is smaller than ``min.insync.replicas``: consumers do not
see records that have fewer copies than promised (KIP-966).

A follower may join the ISR when

- it has reached the high watermark and the start offset of this leader's epoch,
- it has deleted what the leader has deleted: otherwise deleted records would come back if it led next,
- its broker is neither fenced nor shutting down,
- its fetches carry the broker epoch that the metadata has (KIP-903: a broker that restarted after a crash
  must not be counted for what it had before).

A member leaves the ISR when it has not been caught up for ``replica.lag.time.max.ms``.

The controller's response to a proposal:

=============================================  ==========================================================
no error                                       take over the ISR, if its partition epoch is newer
NOT_CONTROLLER, other errors of the transport  send it again (the driver finds the controller first)
INELIGIBLE_REPLICA                             return to the committed ISR; the follower may qualify later
NEW_LEADER_ELECTED and all that follow         wait for the metadata, which has moved on
FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION,
INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
UNKNOWN_TOPIC_ID
=============================================  ==========================================================
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ruslo.machines.replica.follower import UNKNOWN_OFFSET, Follower
from ruslo.machines.replica.isr import IsrState, Member, Proposal
from ruslo.model.errors import ErrorCode

LEADER_MEMBER_EPOCH = -1
NEVER_MS = -(1 << 62)
"""The time at which a follower that was never caught up was last caught up."""


class Brokers(Protocol):
    """The brokers of the cluster in the newest metadata."""

    def eligible_epoch(self, broker_id: int, /) -> int | None:
        """The broker epoch; None while the broker is fenced, shutting down or not registered."""
        ...


class AfterResponse(enum.Enum):
    """What the driver does after the controller's response to a proposal."""

    DONE = "nothing: the proposal is committed or withdrawn"
    RETRY = "send the same proposal again"
    AWAIT_METADATA = "wait until the metadata changes"


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


class Replicas(NamedTuple):
    """The replicas and the ISR of a partition in the metadata."""

    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class LeaderReplica:
    """The state of one leader epoch of a partition that has followers."""

    def __init__(
        self,
        replicas: Replicas,
        now_ms: int,
        *,
        node_id: int,
        leader_epoch: int,
        epoch_start_offset: int,
        lag_ms: int,
        brokers: Brokers,
    ) -> None:
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = replicas.partition_epoch
        self.isr = IsrState(replicas.isr)
        self.lag_ms = lag_ms
        self._brokers = brokers
        self._epoch_start_offset = epoch_start_offset
        self.followers: dict[int, Follower] = {}
        self._set_followers(replicas.replicas, now_ms)

    # -- metadata --------------------------------------------------------------------------------------------

    def update(self, replicas: Replicas, now_ms: int) -> None:
        """The replicas or the ISR have changed within the same leader epoch."""
        if replicas.partition_epoch <= self.partition_epoch:
            return
        self.partition_epoch = replicas.partition_epoch
        removed = set(self.isr.committed).difference(replicas.isr)
        self.isr.commit(replicas.isr)
        self._set_followers(replicas.replicas, now_ms)
        for broker_id in removed:
            if broker_id in self.followers:
                # The controller removed it for a reason, such as a failed log directory. The high watermark
                # does not wait for it until it has caught up again.
                self.followers[broker_id].caught_up_ms = NEVER_MS

    def _set_followers(self, replicas: Iterable[int], now_ms: int) -> None:
        in_sync = self.isr.committed
        self.followers = {
            replica: self.followers.get(replica)
            or Follower(replica, now_ms if replica in in_sync else NEVER_MS)
            for replica in replicas
            if replica != self.node_id
        }

    # -- watermarks ------------------------------------------------------------------------------------------

    def high_watermark(self, leader_end: int, min_insync_replicas: int, now_ms: int) -> int:
        """How far the high watermark may advance; a lower offset than the present one leaves it unchanged."""
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
        """The smallest log start offset of the leader and the maximal ISR, as last reported."""
        maximal = self.isr.maximal
        starts = (each.log_start_offset for each in self.followers.values() if each.broker_id in maximal)
        return min((leader_start, *starts))

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Whether the ISR is too small; ``min.insync.replicas`` counts at most as the number of replicas."""
        return len(self.isr.committed) < min(min_insync_replicas, len(self.followers) + 1)

    def _is_about_to_join(self, follower: Follower, leader_end: int, now_ms: int) -> bool:
        """The high watermark waits for such followers: if it advanced without them, they would never join."""
        return follower.is_caught_up(leader_end, now_ms, self.lag_ms) and self._is_eligible(follower)

    def _is_eligible(self, follower: Follower) -> bool:
        epoch = self._brokers.eligible_epoch(follower.broker_id)
        return epoch is not None and epoch == follower.broker_epoch

    # -- the ISR ---------------------------------------------------------------------------------------------

    def expand_isr(self, follower: Follower, leader_start: int, high_watermark: int) -> Proposal | None:
        """Propose to add ``follower``, judged by its last fetch; None if it may not join."""
        if not self.can_expand_isr(follower, leader_start, high_watermark):
            return None
        return self._propose((*self.isr.committed, follower.broker_id))

    def can_expand_isr(self, follower: Follower, leader_start: int, high_watermark: int) -> bool:
        return (
            self.isr.pending is None
            and follower.broker_id not in self.isr.committed
            and follower.end_offset >= max(high_watermark, self._epoch_start_offset)
            and follower.log_start_offset >= leader_start
            and self._is_eligible(follower)
        )

    def shrink_isr(self, leader_end: int, now_ms: int) -> Proposal | None:
        """Propose to remove the members that have fallen behind; None if all are caught up."""
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
        epochs = {self.node_id: LEADER_MEMBER_EPOCH}
        epochs |= {follower.broker_id: follower.broker_epoch for follower in self.followers.values()}
        members = tuple(Member(broker_id, epochs[broker_id]) for broker_id in isr)
        proposal = Proposal(self.leader_epoch, self.partition_epoch, members)
        self.isr.propose(proposal)
        return proposal

    def on_response(
        self, proposal: Proposal, error: ErrorCode, partition_epoch: int, isr: tuple[int, ...]
    ) -> AfterResponse:
        """The controller's response to a proposal; epoch and ISR count only in a response without error."""
        if self.isr.pending is not proposal:
            return AfterResponse.DONE
        if error in (ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA):
            if error is ErrorCode.NONE and partition_epoch > self.partition_epoch:
                self.partition_epoch = partition_epoch
                self.isr.commit(isr)
            else:
                # Nothing has changed, so no metadata record follows.
                self.isr.commit(self.isr.committed)
            return AfterResponse.DONE
        if error in _AWAIT_METADATA:
            return AfterResponse.AWAIT_METADATA
        return AfterResponse.RETRY
