"""The timing of the quorum, and what this node wants to be in it."""

from __future__ import annotations

from dataclasses import dataclass

CHECK_QUORUM_FACTOR = 1.5
"""A leader that a majority has not fetched from for so many fetch timeouts resigns (KIP-835)."""
BACKOFF_BASE_MS = 50
STAGGER_MS = 50
"""Between the elections of nodes that see at the same time that one is needed."""
STAGGER_JITTER_MS = 10
OBSERVER_SESSION_MS = 300_000
"""For so long after its last fetch a replica that does not vote is remembered."""


@dataclass(frozen=True, slots=True)
class RaftSettings:
    election_timeout_ms: int = 1_000
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    fetch_max_wait_ms: int = 500
    retry_backoff_ms: int = 20
    may_vote: bool = True
    """A controller: it may be a voter now or later, so that what it fetches is synced before it says so."""
    auto_join: bool = False
    """A controller that is no voter asks to become one (KIP-853)."""

    @property
    def check_quorum_ms(self) -> int:
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def begin_epoch_interval_ms(self) -> int:
        return self.fetch_timeout_ms // 2
