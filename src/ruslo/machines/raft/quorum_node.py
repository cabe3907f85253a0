"""A node of the quorum: what it is, what it knows, and the ways from one state to the next.

The files beside this one hold what happens in the states: ``elections``, ``following``, ``leading`` and
``voter_changes``. They change the node through the ``become_…`` methods here, which is where the rules of
``states.py`` are enforced and where everything that must be durable is handed out to be persisted.

One ask at a time is out to another node. What is to be sent follows from the state alone and is worked out
anew after every event (``machine.py``), so that a lost answer needs no care: the ask is simply due again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import TypeAlias

from ruslo.machines.raft.effects import Effects
from ruslo.machines.raft.leader import Leader
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
from ruslo.machines.raft.roles import Candidate, Follower, Prospective, Resigned, Tally, Unattached
from ruslo.machines.raft.rpc import Answer, Ask, FetchAnswer, ReplicaKey, VoterChangeAnswer
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


class QuorumNode:
    def __init__(
        self,
        *,
        key: ReplicaKey,
        endpoints: tuple[Endpoint, ...],
        static_voters: VoterSet | None,
        bootstrap: Mapping[int, Endpoint],
        settings: RaftSettings,
        random: Random,
        quorum: QuorumState,
        log: LogView,
    ) -> None:
        self.key = key
        self.endpoints = endpoints
        self.static_voters = static_voters
        self.bootstrap = bootstrap
        self.settings = settings
        self.random = random
        self.quorum = quorum
        self.log = log
        self.state = State.UNATTACHED
        self.role: Role = Unattached(deadline_ms=0)
        self.high_watermark = UNKNOWN_HIGH_WATERMARK
        self.now_ms = 0
        self.effects = Effects()
        self.in_flight: dict[int, Ask] = {}
        self.retry_at_ms: dict[int, int] = {}

    # -- who is who ------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    @property
    def voters(self) -> VoterSet:
        """In force; empty as long as a node that is to join has not been told."""
        voters = self.log.voters if self.log.kraft_version > 0 else self.static_voters
        return voters or _NO_VOTERS

    @property
    def own_voter(self) -> Voter | None:
        return self.voters.find(*self.key)

    @property
    def is_voter(self) -> bool:
        return self.own_voter is not None

    @property
    def may_stand(self) -> bool:
        """Whether it stands for election: a voter, or one whose removal it does not know to be committed.

        Without the latter, a leader that wrote its own removal and then crashed could leave a quorum behind
        in which nobody's log is good enough to be voted for, but its own.
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
        """The leader of the epoch as others are told, -1 if there is none, or none any more."""
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

    def leader_endpoint(self) -> Endpoint | None:
        if isinstance(self.role, Leader):
            return self.endpoints[0] if self.endpoints else None
        return self.address_of(self.leader_id) if self.leader_id != NO_NODE else None

    def is_addressed(self, voter: ReplicaKey) -> bool:
        """Whether an ask for this voter has come to the right one (KIP-853)."""
        return voter.node_id in (NO_NODE, self.key.node_id) and voter.directory_id in (
            ZERO_UUID,
            self.key.directory_id,
        )

    # -- asking ----------------------------------------------------------------------------------------------

    def send(self, node_id: int, ask: Ask) -> bool:
        """Unless the node still owes an answer, or an earlier ask failed a moment ago."""
        if node_id in self.in_flight or self.retry_at_ms.get(node_id, 0) > self.now_ms:
            return False
        self.in_flight[node_id] = ask
        self.effects.send(node_id, ask)
        return True

    def pause(self, node_id: int, duration_ms: int | None = None) -> None:
        """Ask this node nothing for a moment."""
        pause_ms = self.settings.retry_backoff_ms if duration_ms is None else duration_ms
        self.retry_at_ms[node_id] = self.now_ms + pause_ms

    def election_timeout_ms(self) -> int:
        return self.settings.election_timeout_ms + self.random.randrange(
            max(self.settings.election_timeout_ms, 1)
        )

    def election_backoff_ms(self, elections_lost: int) -> int:
        slots = self.random.randint(1, 1 << min(elections_lost, 10))
        return min(BACKOFF_BASE_MS * slots, self.settings.election_backoff_max_ms)

    def stagger_ms(self, rivals: set[int]) -> int:
        """So that those who see the same need at the same time do not take each other's votes."""
        rank = sum(rival < self.key.node_id for rival in rivals)
        return rank * STAGGER_MS + self.random.randrange(STAGGER_JITTER_MS)

    # -- what others say about the epoch ---------------------------------------------------------------------

    def observe(self, epoch: int, leader_id: int, endpoint: Endpoint | None) -> bool:
        """Take note of another node's epoch and leader; whether that changed anything."""
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
            return False  # It has just found that one to be silent.
        if self.quorum.leader_id not in (NO_NODE, leader_id):
            return False  # Cannot be: an epoch has one leader. Whoever says so is not believed.
        self.become_follower(epoch, leader_id, endpoint)
        return True

    # -- transitions -----------------------------------------------------------------------------------------

    def become_unattached(self, epoch: int) -> None:
        deadline_ms = self.now_ms + self.election_timeout_ms()
        if isinstance(self.role, Unattached):
            # News of epochs must not keep a voter from standing for election for ever.
            deadline_ms = min(deadline_ms, self.role.deadline_ms)
        if epoch > self.epoch:
            self._persist(QuorumState(epoch=epoch))
        self._become(State.UNATTACHED, Unattached(deadline_ms))

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint | None) -> None:
        assert leader_id != self.key.node_id, "nobody follows itself"
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
        self.stand(lost)

    def stand(self, elections_lost: int = 0) -> None:
        """Ask for votes in an epoch in which this node has voted for itself."""
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
        self.effects.records += self._start_of_epoch_records(granting)

    def _new_tally(self) -> Tally:
        return Tally(self.voters, granted={self.key.node_id} if self.is_voter else set())

    def become_resigned(self, preferred: tuple[ReplicaKey, ...] = ()) -> None:
        untold = {voter.node_id for voter in self.other_voters}
        deadline_ms = self.now_ms + self.election_timeout_ms()
        self._become(State.RESIGNED, Resigned(deadline_ms, untold, preferred))

    def resign(self) -> None:
        """Step down, and name those who should follow."""
        assert isinstance(self.role, Leader)
        self.become_resigned(self.role.by_progress(self.voters, self.key))

    def _become(self, state: State, role: Role) -> None:
        assert state in LEGAL_NEXT[self.state], f"{self.state} cannot become {state}"
        before = self.role
        self.state, self.role = state, role
        self.in_flight.clear()
        self.retry_at_ms.clear()
        if isinstance(before, Leader):
            self._leave_waiting(before)

    def _leave_waiting(self, leader: Leader) -> None:
        for token in leader.waiting:
            self.effects.reply(token, self.refusal(FetchAnswer, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if leader.change is not None and leader.change.token is not None:
            lost = self.refusal(VoterChangeAnswer, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.effects.reply(leader.change.token, lost)

    def _persist(self, quorum: QuorumState) -> None:
        self.quorum = self.effects.persist = quorum

    def vote_for(self, candidate: ReplicaKey) -> None:
        if self.quorum.voted_id == NO_NODE:
            self._persist(
                replace(self.quorum, voted_id=candidate.node_id, voted_directory_id=candidate.directory_id)
            )

    # -- answers and records ---------------------------------------------------------------------------------

    def refusal(self, kind: type[Answer], error: ErrorCode) -> Answer:
        return kind(error, self.epoch, self.leader_id, self.leader_endpoint())

    def _start_of_epoch_records(self, granting: list[int]) -> list[QuorumRecord]:
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
        if not self.log.voters_in_log:
            records.append(KRaftVersionRecord(version=0, kraft_version=self.log.kraft_version))
        if not self.log.voters_in_log or renewed != own:
            records.append(self.voters.updated(renewed).to_record())
        return records
