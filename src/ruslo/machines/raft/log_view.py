"""The raft machine's view of its log: start and end, the epochs, the synced offset, and the voters and
kraft.version in its control records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TypeAlias

from ruslo.machines.raft.rpc import EpochEnd
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import VoterSet
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.leader_change_message import LeaderChangeMessage
from ruslo.protocol.messages.voters_record import VotersRecord

QuorumRecord: TypeAlias = LeaderChangeMessage | KRaftVersionRecord | VotersRecord

BOOTSTRAP_OFFSET = -1
"""The offset assigned to the records of the checkpoint that ``format`` writes at offset 0: they come before
the log, so no other node's log contains them."""


class LogView:
    """A KRaftVersion or Voters record is in force as soon as it is appended, committed or not, and ceases to
    be when it is truncated."""

    def __init__(
        self,
        *,
        end_offset: int = 0,
        epochs: Iterable[tuple[int, int]] = (),
        start_offset: int = 0,
        snapshot: SnapshotId | None = None,
    ) -> None:
        """``epochs``: each with its start offset. ``snapshot``: the newest snapshot of the log itself."""
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.flushed_offset = end_offset
        self.snapshot = snapshot
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._versions: list[tuple[int, int]] = []
        self._voters: list[tuple[int, VoterSet]] = []
        entries = list(epochs)
        if snapshot is not None and (not entries or entries[0][1] >= snapshot.offset):
            self._epoch_begins(snapshot.epoch, snapshot.offset)
        for epoch, start in entries:
            self._epoch_begins(epoch, start)

    # -- records ---------------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; 0 if the log has never held one."""
        return self._epochs[-1] if self._epochs else 0

    def appended(self, end_offset: int, epoch: int) -> None:
        assert end_offset > self.end_offset, "an append moves the end"
        assert epoch >= self.last_epoch, "epochs never decrease"
        self._epoch_begins(epoch, self.end_offset)
        self.end_offset = end_offset

    def flushed(self, end_offset: int) -> None:
        # A sync that ran during a truncation reports more than the log holds now.
        self.flushed_offset = max(self.flushed_offset, min(end_offset, self.end_offset))

    def truncated(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
        if self.snapshot is not None and not self._epochs:
            self._epoch_begins(self.snapshot.epoch, self.snapshot.offset)
        self._versions = [each for each in self._versions if each[0] < end_offset]
        self._voters = [each for each in self._voters if each[0] < end_offset]

    def snapshot_taken(self, id: SnapshotId, start_offset: int) -> None:
        self.snapshot = id
        self.start_offset = start_offset
        at = bisect_right(self._starts, start_offset) - 1
        if at >= 0:
            del self._starts[:at], self._epochs[:at]
            self._starts[0] = max(self._starts[0], start_offset)

    def snapshot_loaded(self, id: SnapshotId, control: Iterable[QuorumRecord]) -> None:
        """The snapshot replaces everything."""
        self.snapshot = id
        self.start_offset = self.end_offset = self.flushed_offset = id.offset
        self._epochs, self._starts = [id.epoch], [id.offset]
        self._versions.clear()
        self._voters.clear()
        for record in control:
            self.replay(record, id.offset - 1)

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """The largest epoch up to this one and its end offset; None if the log has only later epochs."""
        at = bisect_right(self._epochs, epoch) - 1
        if at < 0:
            return None
        following = self._starts[at + 1] if at + 1 < len(self._starts) else self.end_offset
        return EpochEnd(self._epochs[at], following)

    def check_position(self, offset: int, last_epoch: int) -> EpochEnd | SnapshotId | None:
        """Compare the end of a follower's log with this log.

        None: it matches. Otherwise an upper bound of the divergence point, or the snapshot to start from.
        """
        if self.snapshot is not None:
            if offset < self.start_offset or offset == 0:
                return self.snapshot
            if (offset, last_epoch) == self.snapshot:
                return None
        if offset == 0 and last_epoch == 0:
            return None
        end = self.end_of_epoch(last_epoch)
        if end is None:
            return self.snapshot or EpochEnd(0, 0)
        return None if end.epoch == last_epoch and offset <= end.end_offset else end

    def truncation_for(self, leaders: EpochEnd) -> int:
        """The offset to truncate this log to, given the leader's end of that epoch."""
        own = self.end_of_epoch(leaders.epoch)
        if own is None:
            return self.start_offset
        if own.epoch == leaders.epoch:
            return min(own.end_offset, leaders.end_offset)
        return own.end_offset

    def _epoch_begins(self, epoch: int, start: int) -> None:
        if not self._epochs or epoch > self._epochs[-1]:
            self._epochs.append(epoch)
            self._starts.append(start)

    # -- control records -------------------------------------------------------------------------------------

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1] if self._versions else 0

    @property
    def voters(self) -> VoterSet | None:
        return self._voters[-1][1] if self._voters else None

    @property
    def former_voters(self) -> VoterSet | None:
        """The voters before those in force, if the log still has them."""
        return self._voters[-2][1] if len(self._voters) > 1 else None

    @property
    def voters_offset(self) -> int:
        """The offset of the voters in force."""
        return self._voters[-1][0] if self._voters else BOOTSTRAP_OFFSET

    @property
    def voters_are_in_log(self) -> bool:
        """Whether the voters in force come from the log itself or from a snapshot of it."""
        return self.voters_offset != BOOTSTRAP_OFFSET

    def quorum_records_before(self, offset: int) -> tuple[KRaftVersionRecord | VotersRecord, ...]:
        """The control records for a snapshot that ends at ``offset``."""
        versions = [version for at, version in self._versions if at < offset]
        voters = [voter_set for at, voter_set in self._voters if at < offset]
        if not versions or not versions[-1] or not voters:
            return ()
        return (KRaftVersionRecord(version=0, kraft_version=versions[-1]), voters[-1].to_record())

    def replay(self, record: QuorumRecord, offset: int) -> None:
        match record:
            case KRaftVersionRecord():
                self._versions.append((offset, record.kraft_version))
            case VotersRecord():
                self._voters.append((offset, VoterSet.from_record(record)))
            case LeaderChangeMessage():
                pass  # The batch carries the epoch already; the record serves readers of the log.
