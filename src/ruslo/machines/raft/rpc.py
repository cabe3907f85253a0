"""The requests and responses between the nodes of the quorum, independent of their form on the wire.

Every response carries the epoch of the responding node and, if known, the leader of that epoch and its
endpoint. That is how election results spread: a node that learns of a later epoch, or of the leader of its
own epoch, acts on it whatever its request was (``quorum_node.observe``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.snapshots import NO_SNAPSHOT, SnapshotId
from ruslo.machines.raft.voters import Endpoint, Voter
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID, Uuid


class ReplicaKey(NamedTuple):
    """A replica: a node id and the id of the directory that holds its log."""

    node_id: int
    directory_id: Uuid = ZERO_UUID


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class RaftVoteRequest:
    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    """The voter that the candidate addresses; node id -1 matches any receiver."""
    last_epoch: int
    end_offset: int
    pre_vote: bool
    """Asks whether the voter would grant its vote (KIP-996)."""


@dataclass(frozen=True, slots=True)
class BeginEpochRequest:
    epoch: int
    leader_id: int
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class EndEpochRequest:
    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...]
    """The preferred successors of the leader, the best first."""


@dataclass(frozen=True, slots=True)
class RaftFetchRequest:
    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int
    """The epoch of the record before ``offset``; 0 if the log is empty."""
    high_watermark: int
    """The high watermark known to the follower; a newer one completes a waiting fetch (KIP-1166)."""
    max_wait_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    epoch: int
    replica: ReplicaKey
    id: SnapshotId
    position: int


@dataclass(frozen=True, slots=True)
class VersionsRequest:
    """Asks which kraft.version range the node supports; an ApiVersions request on the wire."""


@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    voter: ReplicaKey


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    epoch: int
    voter: Voter


@dataclass(frozen=True, slots=True)
class RaftResponse:
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    """-1 without a leader: the response says nothing about the epoch."""
    leader_id: int = NO_NODE
    endpoint: Endpoint | None = None
    """The endpoint of the leader."""


@dataclass(frozen=True, slots=True)
class RaftVoteResponse(RaftResponse):
    granted: bool = False


@dataclass(frozen=True, slots=True)
class EpochResponse(RaftResponse):
    """The response to BeginEpoch and EndEpoch."""


@dataclass(frozen=True, slots=True)
class RaftFetchResponse(RaftResponse):
    high_watermark: int = -1
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    records_from: int | None = None
    """Set by the leader's machine: its driver adds the batches from this offset on."""
    records: ReadBuffer = b""
    """Set on the follower: whole batches to append verbatim."""


@dataclass(frozen=True, slots=True)
class SnapshotResponse(RaftResponse):
    id: SnapshotId = NO_SNAPSHOT
    position: int = 0
    size: int = 0
    """The size of the whole snapshot; the leader's driver adds it together with the chunk."""
    chunk: ReadBuffer = b""


@dataclass(frozen=True, slots=True)
class VersionsResponse(RaftResponse):
    kraft_versions: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class VoterChangeResponse(RaftResponse):
    """The response to AddVoter, RemoveVoter and UpdateVoter."""

    message: str | None = None


RaftRequest: TypeAlias = (
    RaftVoteRequest
    | BeginEpochRequest
    | EndEpochRequest
    | RaftFetchRequest
    | SnapshotRequest
    | VersionsRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
)
