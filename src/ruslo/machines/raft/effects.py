"""What the raft machine wants done, collected while it handles an event.

This machine decides what is committed, so it cannot have its driver wait for a commit: control records and
responses are effects too, and the driver carries out all effects in order. The quorum state comes first, so
no other node can learn of a vote or an epoch that a crash would erase.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.machines.machine import Outcome
from ruslo.machines.raft.log_view import QuorumRecord
from ruslo.machines.raft.quorum_state import QuorumState
from ruslo.machines.raft.rpc import RaftRequest, RaftResponse
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.model.buffers import ReadBuffer


@dataclass(frozen=True, slots=True)
class PersistQuorumState:
    """Write the state and sync it before the next effect."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Truncate the log to ``offset``; ``Truncated`` reports where it ends afterwards."""

    offset: int


@dataclass(frozen=True, slots=True)
class AppendFetchedBatches:
    """Append the leader's batches verbatim: ``Appended`` for each, then ``FetchedBatchesAppended``."""

    batches: ReadBuffer


@dataclass(frozen=True, slots=True)
class WriteSnapshotChunk:
    """Write a chunk of the leader's snapshot. After the last one the snapshot replaces the log, and
    ``SnapshotLoaded`` reports it."""

    id: SnapshotId
    position: int
    chunk: ReadBuffer
    is_last: bool


@dataclass(frozen=True, slots=True)
class AppendControlRecords:
    """Append the records as one control batch and replay them."""

    records: tuple[QuorumRecord, ...]


@dataclass(frozen=True, slots=True)
class Respond:
    token: Hashable
    response: RaftResponse


@dataclass(frozen=True, slots=True)
class SendRequest:
    node_id: int
    request: RaftRequest


LogEffect: TypeAlias = TruncateLog | AppendFetchedBatches | WriteSnapshotChunk
RaftEffect: TypeAlias = PersistQuorumState | LogEffect | AppendControlRecords | Respond | SendRequest
RaftOutcome: TypeAlias = Outcome[QuorumRecord, RaftResponse, RaftEffect]


class Effects:
    def __init__(self) -> None:
        self.quorum_state: QuorumState | None = None
        """The last state that the event led to; earlier ones are not written."""
        self.log_effect: LogEffect | None = None
        self.records: list[QuorumRecord] = []
        """Control records for the log of this leader, one batch."""
        self._responses: list[Respond] = []
        self._requests: list[SendRequest] = []

    def respond(self, token: Hashable, response: RaftResponse) -> None:
        self._responses.append(Respond(token, response))

    def send(self, node_id: int, request: RaftRequest) -> None:
        self._requests.append(SendRequest(node_id, request))

    def outcome(self) -> RaftOutcome:
        effects: list[RaftEffect] = []
        if self.quorum_state is not None:
            effects.append(PersistQuorumState(self.quorum_state))
        if self.log_effect is not None:
            effects.append(self.log_effect)
        if self.records:
            effects.append(AppendControlRecords(tuple(self.records)))
        return Outcome(effects=[*effects, *self._responses, *self._requests])
