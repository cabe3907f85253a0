"""The in-sync replicas (ISR) as their leader sees them: the committed set, and the change it has proposed.

    Committed ──a follower has caught up──▶ Expanding ─┐
        ▲     ──a member has fallen behind─▶ Shrinking ┤  at most one proposal at a time (KIP-497)
        └────── the controller has responded ──────────┘

Until the controller responds, the leader must be ready for both outcomes. Records therefore count as
replicated only when every member of the set before *or* after the change has them: the maximal ISR.
"""

from __future__ import annotations

from typing import NamedTuple

RECOVERED = 0


class Member(NamedTuple):
    broker_id: int
    broker_epoch: int
    """-1 for the leader and for members that have not fetched yet: the controller does not check it."""


class Proposal(NamedTuple):
    """An ISR that the leader proposes to the controller (AlterPartition)."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[Member, ...]
    recovery_state: int = RECOVERED
    """A leader that was elected uncleanly has recovered by the time it proposes anything."""


class IsrState:
    __slots__ = ("committed", "maximal", "pending")

    def __init__(self, committed: tuple[int, ...]) -> None:
        self.pending: Proposal | None = None
        self.commit(committed)

    def commit(self, members: tuple[int, ...]) -> None:
        """This ISR is committed, which ends a pending proposal."""
        self.committed = members
        self.maximal: frozenset[int] = frozenset(members)
        self.pending = None

    def propose(self, proposal: Proposal) -> None:
        assert self.pending is None, "one proposal at a time"
        self.pending = proposal
        self.maximal = frozenset((*self.committed, *(member.broker_id for member in proposal.members)))
