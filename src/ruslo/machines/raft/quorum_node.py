"""A node of the quorum: its identity, its knowledge and its transitions from state to state.

The modules beside this one implement the states: ``elections``, ``following``, ``leading`` and
``voter_changes``. They change the node through the ``become_…`` methods, which enforce the transitions of
``states.py`` and hand out everything that must be persisted.

At most one request is in flight to each other node. Which requests are due follows from the state alone and
is computed after every event (``machine.py``), so a lost response needs no handling: the request is due
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from random import Random
from typing import TypeAlias

from ruslo.machines.raft.effects import Effects
from ruslo.machines.raft.leader import Leader
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
from ruslo.machines.raft.roles import Candidate, Follower, Prospective, Resigned, Tally, Unattached
from ruslo.machines.raft.rpc import (
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    ReplicaKey,
    VoterChangeResponse,
)
from ruslo.machines.raft.settings import BACKOFF_BASE_MS, STAGGER_JITTER_MS, STAGGER_MS, RaftSettings
from ruslo.machines.raft.states import LEGAL_NEXT, State
from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.messages import leader_change_message as wire
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.protocol.messages.leader_change_message import LeaderChangeMessage

UNKNOWN_HIGH_WATERMARK = -1
_NO_VOTERS = VoterSet(())

Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned


@dataclass(eq=False)
class QuorumNode:
    _: KW_ONLY
    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    """This node's controller listeners as other nodes reach them."""
    static_voters: VoterSet | None
    """The voters of ``controller.quorum.voters``, in force under kraft.version 0."""
    bootstrap: Mapping[int, Endpoint]
    """More addresses to find the leader at, under ids below -1, which no node has."""
    settings: RaftSettings
    random: Random
    quorum: QuorumState
    log: LogView

    def __post_init__(self) -> None:
        self.state = State.UNATTACHED
        self.role: Role = Unattached(deadline_ms=0)
        self.high_watermark = UNKNOWN_HIGH_WATERMARK
        """Everything below it is committed for good; -1 while unknown."""
        self.now_ms = 0
        self.effects = Effects()
        self.in_flight: dict[int, RaftRequest] = {}
        self.retry_at_ms: dict[int, int] = {}

    # -- identity --------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.key.node_id

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    @property
    def voters(self) -> VoterSet:
        """The voters in force; empty until a node that is not a first voter has learned them."""
        voters = self.log.voters if self.log.kraft_version > 0 else self.static_voters
        return voters or _NO_VOTERS

    @property
    def own_voter(self) -> Voter | None:
        return self.voters.find(*self.key)

    @property
    def is_voter(self) -> bool:
        return self.own_voter is not None

    @property
    def can_be_candidate(self) -> bool:
        """Whether it may start an election: a voter, or one whose removal it does not know to be committed.

        Without the second case, a leader that appended its own removal and then crashed could leave a quorum
        in which only its own log is up to date enough to win votes.
        """
        if self.is_voter:
            return True
        former = self.log.former_voters
        if former is None or self.log.voters_offset < self.high_watermark:
            return False
        return former.find(*self.key) is not None

    @property
    def other_voters(self) -> list[Voter]:
        return [voter for voter in self.voters.voters if not voter.is_node(*self.key)]

    @property
    def leader_id(self) -> int:
        """The leader of the epoch as reported to other nodes; -1 if there is none, or it has resigned or
        died."""
        match self.role:
            case Leader():
                return self.key.node_id
            case Follower(leader_gone=False) as follower:
                return follower.leader_id
        return NO_NODE

    def address_of(self, node_id: int) -> Endpoint | None:
        if isinstance(self.role, Follower) and self.role.leader_id == node_id and self.role.endpoint:
            return self.role.endpoint
        change = self.role.change if isinstance(self.role, Leader) else None
        if change is not None and change.adding is not None and change.adding.node_id == node_id:
            return change.adding.endpoints[0]
        voter = next((each for each in self.voters.voters if each.node_id == node_id), None)
        if voter is not None and voter.endpoints:
            return voter.endpoints[0]
        return self.bootstrap.get(node_id)

    @property
    def leader_endpoint(self) -> Endpoint | None:
        if isinstance(self.role, Leader):
            return self.endpoints[0] if self.endpoints else None
        return self.address_of(self.leader_id) if self.leader_id != NO_NODE else None

    def is_addressed(self, voter: ReplicaKey) -> bool:
        """Whether a request for this voter has reached the right node (KIP-853)."""
        return voter.node_id in (NO_NODE, self.key.node_id) and voter.directory_id in (
            ZERO_UUID,
            self.key.directory_id,
        )

    # -- requests --------------------------------------------------------------------------------------------

    def send(self, node_id: int, request: RaftRequest) -> bool:
        """Send the request unless one is in flight to the node, or an earlier one failed a moment ago."""
        if node_id in self.in_flight or self.retry_at_ms.get(node_id, 0) > self.now_ms:
            return False
        self.in_flight[node_id] = request
        self.effects.send(node_id, request)
        return True

    def back_off(self, node_id: int, duration_ms: int | None = None) -> None:
        """Send this node nothing for a while."""
        backoff_ms = self.settings.retry_backoff_ms if duration_ms is None else duration_ms
        self.retry_at_ms[node_id] = self.now_ms + backoff_ms

    def election_timeout_ms(self) -> int:
        return self.settings.election_timeout_ms + self.random.randrange(
            max(self.settings.election_timeout_ms, 1)
        )

    def election_backoff_ms(self, elections_lost: int) -> int:
        slots = self.random.randint(1, 1 << min(elections_lost, 10))
        return min(BACKOFF_BASE_MS * slots, self.settings.election_backoff_max_ms)

    def stagger_ms(self, rivals: set[int]) -> int:
        """Staggers the elections of voters that notice the same loss, so that they do not split the vote."""
        rank = sum(rival < self.key.node_id for rival in rivals)
        return rank * STAGGER_MS + self.random.randrange(STAGGER_JITTER_MS)

    # -- epochs of other nodes -------------------------------------------------------------------------------

    def observe(self, epoch: int, leader_id: int, endpoint: Endpoint | None) -> bool:
        """Process the epoch and leader that another node reported; returns whether they changed the state."""
        if epoch < self.epoch:
            return False
        known = leader_id != NO_NODE and leader_id != self.key.node_id
        if epoch > self.epoch:
            if known:
                self.become_follower(epoch, leader_id, endpoint)
            else:
                self.become_unattached(epoch)
            return True
        if not known or isinstance(self.role, (Leader, Resigned, Follower)):
            return False
        if isinstance(self.role, Prospective) and self.role.leader_id == leader_id:
            return False  # This leader has just timed out.
        if self.quorum.leader_id not in (NO_NODE, leader_id):
            return False  # Impossible, since an epoch has one leader: ignore the report.
        self.become_follower(epoch, leader_id, endpoint)
        return True

    # -- transitions -----------------------------------------------------------------------------------------

    def become_unattached(self, epoch: int) -> None:
        deadline_ms = self.now_ms + self.election_timeout_ms()
        if isinstance(self.role, Unattached):
            # A series of new epochs must not postpone a voter's election for ever.
            deadline_ms = min(deadline_ms, self.role.deadline_ms)
        if epoch > self.epoch:
            self._persist(QuorumState(epoch=epoch))
        self._become(State.UNATTACHED, Unattached(deadline_ms))

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint | None) -> None:
        assert leader_id != self.key.node_id, "a node does not follow itself"
        if epoch > self.epoch:
            self._persist(QuorumState(epoch=epoch, leader_id=leader_id))
        elif self.quorum.leader_id != leader_id:
            assert self.quorum.leader_id == NO_NODE, "an epoch has one leader"
            self._persist(replace(self.quorum, leader_id=leader_id))
        lost_at_ms = self.now_ms + self.settings.fetch_timeout_ms
        self._become(State.FOLLOWER, Follower(leader_id, endpoint, lost_at_ms, update_at_ms=lost_at_ms))

    def become_prospective(self) -> None:
        tally = self._new_tally()
        leader_id = self.quorum.leader_id if isinstance(self.role, Follower) else NO_NODE
        lost = self.role.elections_lost + 1 if isinstance(self.role, Candidate) else 0
        timeout_ms = self.now_ms + self.election_timeout_ms()
        self._become(State.PROSPECTIVE, Prospective(tally, timeout_ms, leader_id, lost))
        if tally.is_won:
            self.become_candidate()

    def become_candidate(self) -> None:
        assert isinstance(self.role, Prospective)
        lost = self.role.elections_lost
        # Under kraft.version 0 a voter is its id alone.
        directory_id = self.key.directory_id if self.log.kraft_version > 0 else ZERO_UUID
        self._persist(
            QuorumState(epoch=self.epoch + 1, voted_id=self.key.node_id, voted_directory_id=directory_id)
        )
        self.start_election(lost)

    def start_election(self, elections_lost: int = 0) -> None:
        """Collect votes in an epoch in which this node has voted for itself."""
        tally = self._new_tally()
        timeout_ms = self.now_ms + self.election_timeout_ms()
        self._become(State.CANDIDATE, Candidate(tally, timeout_ms, elections_lost))
        if tally.is_won:
            self.become_leader()

    def become_leader(self) -> None:
        assert isinstance(self.role, Candidate)
        granting = sorted(self.role.tally.granted)
        self._persist(QuorumState(epoch=self.epoch, leader_id=self.key.node_id))
        self._become(State.LEADER, Leader(self.log.end_offset, since_ms=self.now_ms))
        self.effects.records += self._epoch_start_records(granting)

    def _new_tally(self) -> Tally:
        return Tally(self.voters, granted={self.key.node_id} if self.is_voter else set())

    def become_resigned(self, preferred: tuple[ReplicaKey, ...] = ()) -> None:
        unnotified = {voter.node_id for voter in self.other_voters}
        deadline_ms = self.now_ms + self.election_timeout_ms()
        self._become(State.RESIGNED, Resigned(deadline_ms, unnotified, preferred))

    def resign(self) -> None:
        """Step down and name the preferred successors."""
        assert isinstance(self.role, Leader)
        self.become_resigned(self.role.voters_by_progress(self.voters, self.key))

    def _become(self, state: State, role: Role) -> None:
        assert state in LEGAL_NEXT[self.state], f"{self.state} cannot become {state}"
        before = self.role
        self.state, self.role = state, role
        self.in_flight.clear()
        self.retry_at_ms.clear()
        if isinstance(before, Leader):
            self._fail_waiting_requests(before)

    def _fail_waiting_requests(self, leader: Leader) -> None:
        for token in leader.waiting:
            self.effects.respond(token, self.response(RaftFetchResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if leader.change is not None and leader.change.token is not None:
            response = self.response(VoterChangeResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.effects.respond(leader.change.token, response)

    def _persist(self, quorum: QuorumState) -> None:
        self.quorum = self.effects.quorum_state = quorum

    def vote_for(self, candidate: ReplicaKey) -> None:
        if self.quorum.voted_id == NO_NODE:
            self._persist(
                replace(self.quorum, voted_id=candidate.node_id, voted_directory_id=candidate.directory_id)
            )

    # -- responses and records -------------------------------------------------------------------------------

    def response(self, kind: type[RaftResponse], error: ErrorCode) -> RaftResponse:
        return kind(error, self.epoch, self.leader_id, self.leader_endpoint)

    def _epoch_start_records(self, granting: list[int]) -> list[QuorumRecord]:
        leader_change = LeaderChangeMessage(
            version=0,
            leader_id=self.key.node_id,
            voters=[wire.Voter(voter_id=voter_id) for voter_id in self.voters.ids],
            granting_voters=[wire.Voter(voter_id=voter_id) for voter_id in granting],
        )
        records: list[QuorumRecord] = [leader_change]
        own = self.own_voter
        if self.log.kraft_version == 0 or own is None:
            return records
        renewed = replace(own, endpoints=self.endpoints or own.endpoints)
        if not self.log.voters_are_in_log:
            records.append(KRaftVersionRecord(version=0, kraft_version=self.log.kraft_version))
        if not self.log.voters_are_in_log or renewed != own:
            records.append(self.voters.updated(renewed).to_record())
        return records
