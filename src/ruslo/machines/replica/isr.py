"""The in-sync set as its leader sees it: what the controller has committed, and what it was asked to change.

    Committed ──a follower has caught up──▶ Growing ───┐
        ▲     ──a member has fallen behind─▶ Shrinking ┤  at most one question at a time (KIP-497)
        └────────── the controller has answered ───────┘

Until the answer is there the leader must be ready for both outcomes. So records count as replicated only when
everybody has them who is in the set before *or* after the change: ``maximal``.
"""

from __future__ import annotations

from typing import NamedTuple

RECOVERED = 0


class Member(NamedTuple):
    broker_id: int
    broker_epoch: int
    """-1: of the leader itself, and of members that have not fetched yet; nobody checks it then."""


class Proposal(NamedTuple):
    """A new in-sync set, as it is asked of the controller."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[Member, ...]
    recovery_state: int = RECOVERED
    """A leader that was elected uncleanly has dealt with that by the time it proposes anything."""


class InSyncSet:
    __slots__ = ("committed", "maximal", "pending")

    def __init__(self, committed: tuple[int, ...]) -> None:
        self.pending: Proposal | None = None
        self.commit(committed)

    def commit(self, members: tuple[int, ...]) -> None:
        """The controller has said what it is; whatever was asked before is answered with that."""
        self.committed = members
        self.maximal: frozenset[int] = frozenset(members)
        self.pending = None

    def propose(self, proposal: Proposal) -> None:
        assert self.pending is None, "one question at a time"
        self.pending = proposal
        self.maximal = frozenset((*self.committed, *(member.broker_id for member in proposal.members)))

    def withdraw(self) -> None:
        """The controller has refused, and nothing was changed."""
        self.pending = None
        self.maximal = frozenset(self.committed)
