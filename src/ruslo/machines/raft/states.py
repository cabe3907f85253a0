"""The states of a node in the metadata quorum (KRaft: KIP-595, pre-vote KIP-996) and the legal transitions.

- A state belongs to an epoch, and the epoch never decreases.
- A node votes at most once per epoch and keeps the vote across state changes. The vote is durable before any
  node counts it, including the voter itself.
- Prospective only asks for pre-votes, so it neither raises the epoch nor writes anything.
- A sole voter needs no other votes: at start it passes through Unattached or Resigned, Prospective,
  Candidate and Leader within one event.
- Observers do not vote; they are Unattached or Followers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType


class State(enum.Enum):
    UNATTACHED = "unattached"
    """The node knows the epoch but no leader in it; it may have voted."""
    PROSPECTIVE = "prospective"
    """The node collects pre-votes in its current epoch."""
    CANDIDATE = "candidate"
    """The node has raised the epoch, voted for itself, and collects votes."""
    FOLLOWER = "follower"
    """The node fetches from the leader of its epoch."""
    LEADER = "leader"
    """The node is the only one that appends in its epoch."""
    RESIGNED = "resigned"
    """The node led this epoch and will not append in it again: it stopped, restarted, or lost its quorum."""


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
        _U: frozenset({_U, _P, _F}),  # higher epoch or vote granted; election timeout; leader discovered
        _P: frozenset({_C, _F, _U}),  # pre-votes of a majority; leader discovered; rejected or timed out
        _C: frozenset({_L, _P, _F, _U}),  # majority; lost and backed off; leader discovered; higher epoch
        _F: frozenset({_F, _P, _U}),  # new leader; fetch timeout of a voter; of an observer, or higher epoch
        _L: frozenset({_R, _U, _F}),  # shutdown or quorum lost; higher epoch without, with a leader
        _R: frozenset(
            {_U, _P, _F}
        ),  # higher epoch or election timeout; sole voter at start; leader discovered
    }
)
