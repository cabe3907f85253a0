"""The states of a node in the metadata quorum (KRaft: KIP-595, pre-vote KIP-996), and who may follow whom.

A state belongs to an epoch, and an epoch never falls. A node votes at most once in an epoch, and remembers it
through every state; the vote is durable before anybody, the node itself included, counts it. Prospective is
a question only ("would you vote for me?"), so it raises no epoch and writes nothing.

A sole voter asks nobody: it walks Unattached or Resigned, Prospective, Candidate, Leader in one go at start.

Observers, which do not vote, are Unattached or Followers and nothing else.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType


class State(enum.Enum):
    UNATTACHED = "unattached"
    """Knows its epoch, no leader in it; may have voted."""
    PROSPECTIVE = "prospective"
    """Collects pre-votes, in the epoch it was in."""
    CANDIDATE = "candidate"
    """Has raised the epoch, voted for itself, collects votes."""
    FOLLOWER = "follower"
    """Fetches from the leader of its epoch."""
    LEADER = "leader"
    """The only one that appends in its epoch."""
    RESIGNED = "resigned"
    """Led this epoch and will not append in it again: stopped, restarted, or lost its quorum."""


_U, _P, _C, _F, _L, _R = (
    State.UNATTACHED,
    State.PROSPECTIVE,
    State.CANDIDATE,
    State.FOLLOWER,
    State.LEADER,
    State.RESIGNED,
)

LEGAL_NEXT: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        _U: frozenset({_U, _P, _F}),  # higher epoch or vote given; election timeout; leader learnt
        _P: frozenset({_C, _F, _U}),  # majority would vote; leader known or learnt; refused, timed out
        _C: frozenset({_L, _P, _F, _U}),  # majority; lost and waited; leader learnt; higher epoch
        _F: frozenset({_F, _P, _U}),  # new leader; voter's fetch timeout; observer's, or higher epoch
        _L: frozenset({_R, _U, _F}),  # stop, quorum lost; higher epoch without, with a leader
        _R: frozenset({_U, _P, _F}),  # higher epoch or election timeout; sole voter, at start; leader learnt
    }
)
