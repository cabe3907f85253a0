"""What a node remembers because of the state it is in, and forgets when it leaves it. The leader's part is in
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
    """When a voter stands for election."""
    leaderless: set[int] = field(default_factory=set)
    """Voters that said that they know no leader either."""


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
    """Of the epoch, if it had one: there it goes back to when nobody else misses it."""
    elections_lost: int = 0


@dataclass(slots=True)
class Candidate:
    tally: Tally
    deadline_ms: int
    elections_lost: int = 0
    """In a row, this one not counted: the pause before the next grows with them."""
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
    """When the leader counts as lost, unless an answer to a fetch comes before."""
    update_at_ms: int
    """When to tell the leader who this voter is, or to ask it to become one."""
    has_fetched: bool = False
    leader_gone: bool = False
    """The leader said so, or its process has ended."""
    leader_high_watermark: int = -1
    download: Download | None = None
    is_busy: bool = False
    """The driver has been told to change the log and has not said yet that it has."""


@dataclass(slots=True)
class Resigned:
    deadline_ms: int
    untold: set[int]
    """Voters that have not confirmed to know that the epoch has ended."""
    preferred: tuple[ReplicaKey, ...] = ()
