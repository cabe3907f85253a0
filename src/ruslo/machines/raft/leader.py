"""The leader's data of one epoch: the progress of every replica, waiting fetches and the pending voter
change.

The high watermark is the largest offset that a majority of the voters has synced, but only once it lies
beyond the start of the leader's own epoch (Raft §5.4.2): a record of an earlier epoch that a majority holds
may still be replaced, one of this epoch may not."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from ruslo.machines.raft.roles import NEVER_MS
from ruslo.machines.raft.rpc import RaftFetchRequest, ReplicaKey
from ruslo.machines.raft.settings import OBSERVER_SESSION_MS
from ruslo.machines.raft.voters import Voter, VoterSet
from ruslo.model.ids import ZERO_UUID

UNKNOWN_OFFSET = -1


@dataclass(slots=True)
class Progress:
    """The progress of one replica other than the leader."""

    end_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: int = -NEVER_MS
    last_caught_up_ms: int = -NEVER_MS
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    gone: bool = False
    """Its process has ended and it has not fetched since."""
    begin_epoch_at_ms: int = 0
    """When to send BeginQuorumEpoch again to a voter that does not fetch."""


@dataclass(frozen=True, slots=True)
class WaitingFetch:
    request: RaftFetchRequest
    until_ms: int


@dataclass(slots=True)
class VoterChange:
    """The one pending change, from its request until the Voters record is committed."""

    token: Hashable | None
    """The request to answer when the change is committed; None: it has been answered already."""
    voters: VoterSet
    adding: Voter | None = None
    """The joining voter while the leader checks its supported versions, before anything is appended."""
    offset: int | None = None
    """The offset of the Voters record."""
    until_ms: int = NEVER_MS


@dataclass(slots=True)
class Leader:
    epoch_start_offset: int
    since_ms: int
    replicas: dict[ReplicaKey, Progress] = field(default_factory=dict)
    waiting: dict[Hashable, WaitingFetch] = field(default_factory=dict)
    change: VoterChange | None = None
    static_voters: dict[int, Voter] = field(default_factory=dict)
    """Under kraft.version 0: the voters as they described themselves, for the upgrade to version 1."""

    def progress_of(self, voter: Voter) -> Progress:
        key = ReplicaKey(voter.node_id, voter.directory_id)
        if key not in self.replicas:
            # Before kraft.version 1 moved the voters into the log, a voter was identified by its node id
            # alone.
            self.replicas[key] = self.replicas.pop(ReplicaKey(voter.node_id), Progress())
        return self.replicas[key]

    def majority_offset(self, voters: VoterSet, own: ReplicaKey, own_offset: int) -> int:
        """The largest offset that a majority of the voters holds; the leader counts itself only if it
        votes."""
        offsets = sorted(
            own_offset if voter.is_node(own.node_id, own.directory_id) else self.progress_of(voter).end_offset
            for voter in voters.voters
        )
        return offsets[(len(offsets) - 1) // 2]

    def quorum_contact_ms(self, voters: VoterSet, own: ReplicaKey) -> int | None:
        """When a majority was last in contact; None if the leader alone is a majority."""
        others = [voter for voter in voters.voters if not voter.is_node(*own)]
        contacts = sorted((self._contact_ms(voter) for voter in others), reverse=True)
        own_part = len(voters.voters) - len(contacts)
        needed = len(voters.voters) // 2 + 1 - own_part
        return contacts[needed - 1] if needed > 0 else None

    def _contact_ms(self, voter: Voter) -> int:
        progress = self.progress_of(voter)
        return -NEVER_MS if progress.gone else max(progress.last_fetch_ms, self.since_ms)

    def fetched(self, replica: ReplicaKey, offset: int, leader_end: int, now_ms: int) -> None:
        progress = self.replicas.setdefault(replica, Progress())
        if offset >= leader_end:
            progress.last_caught_up_ms = now_ms
        elif 0 <= progress.leader_end_at_last_fetch <= offset:
            # It has everything that the log held at its last fetch.
            progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
        progress.end_offset = offset
        progress.gone = False
        progress.last_fetch_ms = now_ms
        progress.leader_end_at_last_fetch = leader_end

    def forget_old_observers(self, voters: VoterSet, now_ms: int) -> None:
        for key, progress in list(self.replicas.items()):
            if progress.last_fetch_ms < now_ms - OBSERVER_SESSION_MS and not any(
                voter.is_node(*key) for voter in voters.voters
            ):
                del self.replicas[key]

    def voters_by_progress(self, voters: VoterSet, own: ReplicaKey) -> tuple[ReplicaKey, ...]:
        """The other voters, the most advanced first."""
        others = [voter for voter in voters.voters if not voter.is_node(own.node_id, own.directory_id)]
        others.sort(key=lambda voter: -self.progress_of(voter).end_offset)
        return tuple(ReplicaKey(voter.node_id, voter.directory_id) for voter in others)


def replica_key(voters: VoterSet, node_id: int, directory_id: bytes = ZERO_UUID) -> ReplicaKey:
    """The key under which the leader tracks a replica; a static voter is its node id alone."""
    voter = voters.find(node_id, directory_id)
    return ReplicaKey(node_id, directory_id if voter is None else voter.directory_id)
