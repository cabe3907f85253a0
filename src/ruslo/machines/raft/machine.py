"""The metadata quorum as one of its nodes sees it.

The rules are those of ``states.py``. How a sole voter comes to lead::

    Started    as stored: led the epoch -> Resigned, voted for itself in it -> Candidate, else Unattached
               -> Prospective (all voters, itself, would vote for it) -> Candidate, epoch + 1
               out: persist (epoch + 1, own vote)
    Persisted  the own vote counts: a majority -> Leader
               out: persist (epoch + 1, leader)
    Persisted  out: append LeaderChange, and KRaftVersion and Voters if the log does not hold them, or Voters
               alone if this node moved to another address
    Flushed    the high watermark is what a majority of the voters has on disk, but only once that lies beyond
               the start of the epoch (Raft §5.4.2); so it moves when LeaderChange is on disk

A Candidate that restarts may win the epoch it voted in: it is sure that nothing was appended in it, because
"leader" is durable before the first append. Should the log say otherwise, the epoch is raised once more.

State that comes from the log changes in ``replay`` only. The machine has no timers as long as it is the sole
voter, and writes no NoOp records: they exist so that observers can see that the leader is alive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ruslo.machines.outcome import Append, Outcome
from ruslo.machines.raft.events import Appended, Flushed, Persisted, RaftEvent, Started, Stopping
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
from ruslo.machines.raft.states import LEGAL_NEXT, State
from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.model.errors import ConfigError
from ruslo.model.ids import ZERO_UUID, Uuid
from ruslo.protocol.messages import leader_change_message as wire
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.leader_change_message import LeaderChangeMessage

UNKNOWN_HIGH_WATERMARK = -1


@dataclass(frozen=True, slots=True)
class RaftOutcome(Outcome[QuorumRecord, int, object]):
    persist: QuorumState | None = None
    """To be synced to disk before anything else of this outcome, then reported as ``Persisted``."""


_NOTHING = RaftOutcome()


class RaftMachine:
    def __init__(
        self,
        *,
        node_id: int,
        directory_id: Uuid,
        endpoints: tuple[Endpoint, ...],
        static_voters: VoterSet | None,
        quorum: QuorumState,
        log: LogView,
    ) -> None:
        """``endpoints``: where other nodes reach this one's controller listeners.
        ``static_voters``: from ``controller.quorum.voters``, in force under kraft.version 0."""
        self.node_id = node_id
        self.log = log
        self.state = State.UNATTACHED
        self.high_watermark = UNKNOWN_HIGH_WATERMARK
        self._directory_id = directory_id
        self._endpoints = endpoints
        self._static_voters = static_voters
        self._quorum = quorum
        self._epoch_start_offset = 0

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch, -1 if it has none, or none any more."""
        return NO_NODE if self.state is State.RESIGNED else self._quorum.leader_id

    @property
    def epoch_start_offset(self) -> int:
        """Where the epoch that this node leads begins: the offset of its LeaderChange record."""
        return self._epoch_start_offset

    @property
    def voters(self) -> VoterSet:
        """Raises ConfigError when nothing says who votes."""
        voters = self.log.voters if self.log.kraft_version > 0 else self._static_voters
        if voters is None or not voters.voters:
            raise ConfigError(
                "nobody votes in the metadata quorum: the data directory was formatted without voters and "
                "controller.quorum.voters is not set. Format it with 'ruslo storage format --standalone', "
                f"or set controller.quorum.voters={self.node_id}@HOST:PORT"
            )
        return voters

    def leads(self, epoch: int) -> bool:
        return self.state is State.LEADER and epoch == self.epoch

    def deadline_ms(self) -> int | None:
        return None

    def replay(self, offset: int, record: QuorumRecord) -> None:
        self.log.replay(offset, record)

    def handle(self, event: RaftEvent, now_ms: int) -> RaftOutcome:
        match event:
            case Started():
                return self._start()
            case Persisted(state):
                return self._persisted(state)
            case Appended(end_offset, epoch):
                self.log.appended(end_offset, epoch)
                return _NOTHING
            case Flushed(end_offset):
                self.log.flushed(end_offset)
                self._advance_high_watermark()
                return _NOTHING
            case Stopping():
                if self.state is State.LEADER:
                    self._become(State.RESIGNED)
                return _NOTHING

    def _start(self) -> RaftOutcome:
        self._require_sole_voter()
        stored = self._quorum
        if stored.epoch < self.log.last_epoch:
            # The quorum state was lost or is an old copy. What this node did in the log's epoch is
            # unknown, so it takes part in later ones only.
            self._quorum = QuorumState(epoch=self.log.last_epoch)
        elif stored.leader_id == self.node_id:
            self.state = State.RESIGNED
        elif self._voted_for_itself(stored) and self.log.last_epoch < stored.epoch:
            self.state = State.CANDIDATE
            return RaftOutcome(persist=stored)
        self._become(State.PROSPECTIVE)
        self._become(State.CANDIDATE)
        self._quorum = QuorumState(
            epoch=self.epoch + 1, voted_id=self.node_id, voted_directory_id=self._own_voter().directory_id
        )
        return RaftOutcome(persist=self._quorum)

    def _persisted(self, state: QuorumState) -> RaftOutcome:
        if state != self._quorum:
            return _NOTHING  # Overtaken by a later one, which will be reported as well.
        if self.state is State.CANDIDATE:
            self._become(State.LEADER)
            self._quorum = QuorumState(epoch=self.epoch, leader_id=self.node_id)
            self._epoch_start_offset = self.log.end_offset
            return RaftOutcome(persist=self._quorum)
        if self.state is State.LEADER:
            return RaftOutcome(append=Append(self._start_of_epoch_records()))
        return _NOTHING

    def _start_of_epoch_records(self) -> tuple[QuorumRecord, ...]:
        voters = self.voters
        leader_change = LeaderChangeMessage(
            version=0,
            leader_id=self.node_id,
            voters=[wire.Voter(voter_id=voter_id) for voter_id in voters.ids],
            granting_voters=[wire.Voter(voter_id=self.node_id)],
        )
        if self.log.kraft_version == 0:
            return (leader_change,)
        own = self._own_voter()
        renewed = replace(own, endpoints=self._endpoints or own.endpoints)
        records: list[QuorumRecord] = [leader_change]
        if not self.log.voters_in_log:
            records.append(KRaftVersionRecord(version=0, kraft_version=self.log.kraft_version))
        if not self.log.voters_in_log or renewed != own:
            records.append(VoterSet((renewed,)).to_record())
        return tuple(records)

    def _advance_high_watermark(self) -> None:
        if self.state is State.LEADER and self.log.flushed_offset > self._epoch_start_offset:
            self.high_watermark = max(self.high_watermark, self.log.flushed_offset)

    def _become(self, state: State) -> None:
        assert state in LEGAL_NEXT[self.state], f"{self.state} cannot become {state}"
        self.state = state

    def _voted_for_itself(self, stored: QuorumState) -> bool:
        same_directory = stored.voted_directory_id in (ZERO_UUID, self._directory_id)
        return stored.voted_id == self.node_id and same_directory

    def _own_voter(self) -> Voter:
        voter = self.voters.find(self.node_id, self._directory_id)
        assert voter is not None, "checked at start"
        return voter

    def _require_sole_voter(self) -> None:
        voters = self.voters
        if len(voters.voters) > 1:
            raise ConfigError(
                f"the metadata quorum has the voters {voters}, but this version of Ruslo runs a single "
                "voter. Give the node its own quorum: one entry in controller.quorum.voters, or a data "
                "directory formatted with 'ruslo storage format --standalone'"
            )
        if voters.find(self.node_id, self._directory_id) is None:
            me = Voter(self.node_id, self._directory_id if self.log.kraft_version > 0 else ZERO_UUID)
            raise ConfigError(
                f"this node is {me}, but the metadata quorum's only voter is {voters}, and this version of "
                "Ruslo runs a node that is its own voter. Correct node.id or controller.quorum.voters, or "
                "start on a fresh data directory formatted with 'ruslo storage format --standalone'"
            )
