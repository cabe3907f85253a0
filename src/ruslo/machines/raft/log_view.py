"""What the raft machine knows of its log: where it ends, how far it is safe on disk, and what the control
records in it say about the quorum itself."""

from __future__ import annotations

from typing import TypeAlias

from ruslo.machines.raft.voters import VoterSet
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.leader_change_message import LeaderChangeMessage
from ruslo.protocol.messages.voters_record import VotersRecord

QuorumRecord: TypeAlias = LeaderChangeMessage | KRaftVersionRecord | VotersRecord

BOOTSTRAP_OFFSET = -1
"""Where the records of the checkpoint at offset 0, written by ``format``, count as standing: before the log,
and so in nobody else's log."""


class LogView:
    """A KRaftVersion or Voters record is in force from the moment it is appended, committed or not."""

    def __init__(self, *, end_offset: int, last_epoch: int) -> None:
        self.end_offset = end_offset
        self.last_epoch = last_epoch
        self.flushed_offset = 0
        self.kraft_version = 0
        self.voters: VoterSet | None = None
        self._voters_offset = BOOTSTRAP_OFFSET

    @property
    def voters_in_log(self) -> bool:
        """Whether the voters in force stand in the log itself, or in a snapshot of it."""
        return self.voters is not None and self._voters_offset != BOOTSTRAP_OFFSET

    def appended(self, end_offset: int, epoch: int) -> None:
        assert end_offset > self.end_offset, "an append moves the end"
        assert epoch >= self.last_epoch, "epochs never fall"
        self.end_offset = end_offset
        self.last_epoch = epoch

    def flushed(self, end_offset: int) -> None:
        assert end_offset <= self.end_offset, "nothing beyond the end can be on disk"
        self.flushed_offset = max(self.flushed_offset, end_offset)

    def replay(self, offset: int, record: QuorumRecord) -> None:
        match record:
            case KRaftVersionRecord():
                self.kraft_version = record.kraft_version
            case VotersRecord():
                self.voters = VoterSet.from_record(record)
                self._voters_offset = offset
            case LeaderChangeMessage():
                pass  # The epoch of its batch says the same; the record is there for readers of the log.
