"""The data that belongs to each state and is dropped when the node leaves it. The leader's data is in
``leader.py``."""

from __future__ import annotations

from dataclasses import dataclass, field

from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import ReplicaKey
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import Endpoint, VoterSet

NEVER_MS = 1 << 62


@dataclass(slots=True)
class Unattached:
    deadline_ms: int
    """When a voter starts an election."""
    voters_without_leader: set[int] = field(default_factory=set)
    """Voters that also know no leader."""


@dataclass(slots=True)
class Tally:
    """The votes of one election."""

    voters: VoterSet
    granted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)

    @property
    def majority(self) -> int:
        return len(self.voters.voters) // 2 + 1

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.majority

    @property
    def is_lost(self) -> bool:
        return len(self.voters.voters) - len(self.refused) < self.majority

    def outstanding(self) -> list[int]:
        return [each for each in self.voters.ids if each not in self.granted and each not in self.refused]


@dataclass(slots=True)
class Prospective:
    tally: Tally
    deadline_ms: int
    leader_id: int = NO_NODE
    """The leader of the epoch, if there was one; the node follows it again when pre-votes are rejected."""
    elections_lost: int = 0


@dataclass(slots=True)
class Candidate:
    tally: Tally
    deadline_ms: int
    elections_lost: int = 0
    """Consecutive lost elections, not counting this one; the backoff grows with them."""
    lost: bool = False


@dataclass(slots=True)
class Download:
    id: SnapshotId
    position: int = 0


@dataclass(slots=True)
class Follower:
    leader_id: int
    endpoint: Endpoint | None
    deadline_ms: int
    """When the leader counts as lost unless a fetch response arrives first."""
    update_at_ms: int
    """When to send the leader an UpdateVoter, or the request to be added as a voter."""
    has_fetched: bool = False
    leader_gone: bool = False
    """The leader ended its epoch, or its process has ended."""
    leader_high_watermark: int = -1
    download: Download | None = None
    log_change_pending: bool = False
    """The driver is changing the log and has not reported completion."""


@dataclass(slots=True)
class Resigned:
    deadline_ms: int
    unnotified: set[int]
    """Voters that have not acknowledged the end of the epoch."""
    preferred: tuple[ReplicaKey, ...] = ()
