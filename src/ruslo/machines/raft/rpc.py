"""What the nodes of the quorum say to each other, without the shape it has on the wire.

An ask goes to one node; its answer always tells which epoch the answering node is in, and who leads it and
where, as far as it knows. That is how news of elections travels: whoever hears of a later epoch, or of the
leader of its own, acts on it, whatever it had asked (``quorum_node.observe``).
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
    """Who fetches: a node with one particular disk."""

    node_id: int
    directory_id: Uuid = ZERO_UUID


class EpochEnd(NamedTuple):
    """An epoch, and the first offset after its last record."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class VoteAsk:
    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    """Whom the candidate believes it is asking; id -1: whoever receives it."""
    last_epoch: int
    end_offset: int
    pre_vote: bool
    """Would you vote for me? (KIP-996)"""


@dataclass(frozen=True, slots=True)
class BeginEpochAsk:
    epoch: int
    leader_id: int
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class EndEpochAsk:
    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...]
    """Who should follow the leader, the best first."""


@dataclass(frozen=True, slots=True)
class FetchAsk:
    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int
    """Of the record before ``offset``; 0 if there is none."""
    high_watermark: int
    """As far as the follower knows it: a newer one is worth an answer of its own (KIP-1166)."""
    max_wait_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotAsk:
    epoch: int
    replica: ReplicaKey
    id: SnapshotId
    position: int


@dataclass(frozen=True, slots=True)
class VersionsAsk:
    """Which kraft.version does the node support? An ApiVersions request on the wire."""


@dataclass(frozen=True, slots=True)
class AddVoterAsk:
    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class RemoveVoterAsk:
    voter: ReplicaKey


@dataclass(frozen=True, slots=True)
class UpdateVoterAsk:
    epoch: int
    voter: Voter


@dataclass(frozen=True, slots=True)
class Answer:
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    """-1 together with no leader: the answer tells nothing about it."""
    leader_id: int = NO_NODE
    endpoint: Endpoint | None = None
    """Where the leader is."""


@dataclass(frozen=True, slots=True)
class VoteAnswer(Answer):
    granted: bool = False


@dataclass(frozen=True, slots=True)
class EpochAnswer(Answer):
    """To BeginEpoch and EndEpoch."""


@dataclass(frozen=True, slots=True)
class FetchAnswer(Answer):
    high_watermark: int = -1
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    records_from: int | None = None
    """On the leader's side: the driver adds the batches from this offset on."""
    records: ReadBuffer = b""
    """On the follower's side: whole batches, as they are to be appended."""


@dataclass(frozen=True, slots=True)
class SnapshotAnswer(Answer):
    id: SnapshotId = NO_SNAPSHOT
    position: int = 0
    size: int = 0
    """Of the whole snapshot; the driver of the leader adds it, and the piece."""
    piece: ReadBuffer = b""


@dataclass(frozen=True, slots=True)
class VersionsAnswer(Answer):
    kraft_versions: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class VoterChangeAnswer(Answer):
    """To AddVoter, RemoveVoter and UpdateVoter."""

    message: str | None = None


Ask: TypeAlias = (
    VoteAsk
    | BeginEpochAsk
    | EndEpochAsk
    | FetchAsk
    | SnapshotAsk
    | VersionsAsk
    | AddVoterAsk
    | RemoveVoterAsk
    | UpdateVoterAsk
)
