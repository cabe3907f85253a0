"""The invariants of the quorum, checked after every step."""

from __future__ import annotations

from bisect import bisect_left

from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.states import State
from ruslo.machines.raft.voters import VoterSet
from ruslo.protocol.messages.voters_record import VotersRecord
from ruslo.testing.simulation.raft.log import SimBatch
from ruslo.testing.simulation.raft.node import SimRaftNode

ONE_LEADER = "one leader per epoch"
VOTE_ONCE = "a node votes once in an epoch"
COMMITTED_KEPT = "committed records are never lost"
LOGS_AGREE = "logs agree up to the high watermark"
HIGH_WATERMARK_INCREASES = "the high watermark never decreases"
VOTERS_ONE_BY_ONE = "voters change one at a time"
PROGRESS = "a quorum without faults makes progress"


class InvariantBrokenError(AssertionError):
    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


class RaftInvariants:
    def __init__(self) -> None:
        self.committed: list[SimBatch] = []
        """Everything that any node has ever seen committed, from the start of the log."""
        self._committed_in: list[int] = []
        """The epoch of the leader that committed each of them."""
        self._ends: dict[int, int] = {}
        """The number of committed batches up to each end offset."""
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        self._high_watermarks: dict[tuple[int, int], int] = {}
        self._checked: dict[int, tuple[int, int]] = {}

    @property
    def committed_end(self) -> int:
        return self.committed[-1].end_offset if self.committed else 0

    def check(self, node: SimRaftNode, incarnation: int) -> None:
        machine = node.machine
        if machine is None:
            return
        self._check_leader(node, incarnation)
        self._check_vote(node)
        before = self._high_watermarks.get((node.node_id, incarnation), -1)
        now = machine.high_watermark
        if now < before:
            raise InvariantBrokenError(HIGH_WATERMARK_INCREASES, f"{node.node_id}: {before} → {now}")
        if now > before:
            self._high_watermarks[node.node_id, incarnation] = now
            self._check_committed(node, now)

    def _check_leader(self, node: SimRaftNode, incarnation: int) -> None:
        machine = node.machine
        assert machine is not None
        term = (incarnation, machine.epoch)
        if machine.state is not State.LEADER or self._checked.get(node.node_id) == term:
            return
        self._checked[node.node_id] = term
        first = self._leaders.setdefault(machine.epoch, node.node_id)
        if first != node.node_id:
            raise InvariantBrokenError(ONE_LEADER, f"{first} and {node.node_id} lead epoch {machine.epoch}")
        # Later leaders must have everything; a late winner of a past epoch is harmless.
        count = bisect_left(self._committed_in, machine.epoch)
        committed_end = self.committed[count - 1].end_offset if count else 0
        if node.log.end_offset < committed_end:
            raise InvariantBrokenError(
                COMMITTED_KEPT,
                f"{node.node_id} leads epoch {machine.epoch} with a log up to {node.log.end_offset}, but "
                f"{committed_end} is committed",
            )
        self._compare(node, committed_end, COMMITTED_KEPT)

    def _check_vote(self, node: SimRaftNode) -> None:
        assert node.machine is not None
        quorum = node.machine.quorum
        if quorum.voted_id != NO_NODE:
            first = self._votes.setdefault((node.node_id, quorum.epoch), quorum.voted_id)
            if first != quorum.voted_id:
                raise InvariantBrokenError(
                    VOTE_ONCE,
                    f"{node.node_id} voted in epoch {quorum.epoch} for {first}, then for {quorum.voted_id}",
                )

    def _check_committed(self, node: SimRaftNode, high_watermark: int) -> None:
        if high_watermark <= self.committed_end:
            self._compare(node, high_watermark, LOGS_AGREE)
            return
        self._compare(node, self.committed_end, LOGS_AGREE)
        for batch in node.log.batches_from(self.committed_end, len(node.log.batches)):
            if batch.end_offset > high_watermark:
                break
            self.committed.append(batch)
            assert node.machine is not None
            epoch = node.machine.epoch
            self._committed_in.append(max(epoch, self._committed_in[-1] if self._committed_in else 0))
            self._ends[batch.end_offset] = len(self.committed)

    def _compare(self, node: SimRaftNode, offset: int, name: str) -> None:
        """Compare only the last batches before ``offset``: each was compared when it was the last."""
        own = node.log.batches_before(offset)[-3:]
        if not own:
            return
        count = self._ends.get(own[-1].end_offset)
        shared = [] if count is None else self.committed[max(count - len(own), 0) : count]
        if shared != own:
            raise InvariantBrokenError(
                name, f"{node.node_id} has {own} before offset {offset}, committed is {shared}"
            )

    def appended(self, node: SimRaftNode, batch: SimBatch) -> None:
        for record in batch.control:
            if isinstance(record, VotersRecord):
                assert node.machine is not None
                before = node.machine.log.voters
                after = VoterSet.from_record(record)
                if before is not None and node.machine.log.kraft_version > 0:
                    changed = {(v.node_id, v.directory_id) for v in before.voters} ^ {
                        (v.node_id, v.directory_id) for v in after.voters
                    }
                    high_watermark = node.machine.high_watermark
                    change_pending = node.machine.leads(batch.epoch) and (
                        node.machine.log.voters_offset >= max(high_watermark, 0)
                    )
                    if len(changed) > 1 or (changed and change_pending):
                        raise InvariantBrokenError(
                            VOTERS_ONE_BY_ONE, f"{node.node_id} went from {before} to {after}"
                        )
