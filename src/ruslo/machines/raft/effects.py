"""What the raft machine wants done, gathered while it handles an event."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ruslo.machines.outcome import Append, Outcome, Reply, Send
from ruslo.machines.raft.log_view import QuorumRecord
from ruslo.machines.raft.quorum_state import QuorumState
from ruslo.machines.raft.rpc import Answer, Ask
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.model.buffers import ReadBuffer


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
    id: SnapshotId
    position: int
    piece: ReadBuffer
    is_last: bool
    """Then the snapshot is whole: it takes the log's place, and ``SnapshotLoaded`` says so."""


@dataclass(frozen=True, slots=True)
class RaftOutcome(Outcome[QuorumRecord, Hashable, Ask | Answer]):
    """To be done in the order of the fields here, then the append, the replies, the sends."""

    persist: QuorumState | None = None
    """Synced to disk before anything else of this outcome: nobody may hear of a vote that can be forgotten.
    """
    truncate_to: int | None = None
    """Cut the log from here on; ``Truncated`` says where it ends then."""
    take: ReadBuffer | None = None
    """Batches of the leader, to be appended as they are: ``Appended`` for each, then ``Taken``."""
    snapshot_piece: SnapshotPiece | None = None


class Effects:
    def __init__(self) -> None:
        self.persist: QuorumState | None = None
        self.truncate_to: int | None = None
        self.take: ReadBuffer | None = None
        self.snapshot_piece: SnapshotPiece | None = None
        self.records: list[QuorumRecord] = []
        self._replies: list[Reply[Hashable, Answer]] = []
        self._sends: list[Send[Ask]] = []

    def reply(self, token: Hashable, answer: Answer) -> None:
        self._replies.append(Reply(token, answer))

    def send(self, node_id: int, ask: Ask) -> None:
        self._sends.append(Send(node_id, ask))

    def outcome(self) -> RaftOutcome:
        return RaftOutcome(
            append=Append(tuple(self.records)) if self.records else None,
            replies=tuple(self._replies),
            sends=tuple(self._sends),
            persist=self.persist,
            truncate_to=self.truncate_to,
            take=self.take,
            snapshot_piece=self.snapshot_piece,
        )
