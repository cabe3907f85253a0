"""Timeouts of the quorum and the role that this node wants in it."""

from __future__ import annotations

from dataclasses import dataclass

CHECK_QUORUM_FACTOR = 1.5
"""A leader resigns when a majority has not fetched for this many fetch timeouts (KIP-835)."""
BACKOFF_BASE_MS = 50
STAGGER_MS = 50
"""Delay between the elections of voters that notice the loss of the leader at the same time."""
STAGGER_JITTER_MS = 10
OBSERVER_SESSION_MS = 300_000
"""How long the leader remembers an observer after its last fetch."""


@dataclass(frozen=True, slots=True)
class RaftSettings:
    election_timeout_ms: int = 1_000
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    fetch_max_wait_ms: int = 500
    retry_backoff_ms: int = 20
    may_vote: bool = True
    """True for a controller: it may vote now or later, so it syncs what it fetched before the next fetch
    acknowledges it."""
    auto_join: bool = False
    """A controller that is not a voter asks the leader to be added (KIP-853)."""

    @property
    def check_quorum_ms(self) -> int:
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def begin_epoch_interval_ms(self) -> int:
        return self.fetch_timeout_ms // 2
