"""The metadata quorum from one node's point of view: Raft in which the followers pull (KIP-595).

Read ``states.py`` first (the states and legal transitions), then ``quorum_node.py`` (the node and its
transitions), then the states themselves: ``elections.py``, ``following.py``, ``leading.py``,
``voter_changes.py``. This module passes every event to the one it concerns.
An event is handled in three steps: the event itself, expired deadlines, then the requests that are due, which
follow from the state alone. A sole voter becomes leader within the first event::

    Started    stored state: led the epoch -> Resigned, voted for itself in it -> Candidate, else Unattached
               -> Prospective (the only voter grants its pre-vote) -> Candidate, epoch + 1 -> Leader
               effects: persist (epoch + 1, leader); append LeaderChange, KRaftVersion and Voters if the log
               lacks them, or Voters alone if the endpoint of this node changed
    Flushed    the high watermark is what a majority of the voters has on disk, but only once it lies beyond
               the start of the epoch (Raft §5.4.2); so it moves when LeaderChange is on disk

A Candidate that restarts may still win the epoch it voted in: nothing was appended in that epoch, because
"leader" is durable before the first append. If the log says otherwise, the epoch is raised once more.

State that comes from the log changes only in ``replay``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from ruslo.machines.machine import Instant, TimerFired
from ruslo.machines.raft import elections, following, leading, voter_changes
from ruslo.machines.raft.effects import Effects, RaftOutcome
from ruslo.machines.raft.events import (
    Appended,
    FetchedBatchesAppended,
    Flushed,
    PeerGone,
    RaftEvent,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SnapshotLoaded,
    SnapshotWritten,
    Started,
    Stopping,
    Truncated,
    UpgradeRequested,
)
from ruslo.machines.raft.leader import Leader, Progress
from ruslo.machines.raft.log_view import QuorumRecord
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
from ruslo.machines.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from ruslo.machines.raft.rpc import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    RaftFetchRequest,
    RaftRequest,
    RaftVoteRequest,
    RemoveVoterRequest,
    ReplicaKey,
    SnapshotRequest,
    UpdateVoterRequest,
    VersionsRequest,
)
from ruslo.machines.raft.states import State
from ruslo.machines.raft.voters import Voter
from ruslo.model.errors import ConfigError
from ruslo.model.ids import ZERO_UUID


class RaftMachine(QuorumNode):
    @property
    def epoch_start_offset(self) -> int:
        """The offset of the LeaderChange record of the epoch that this node leads; -1 if it does not lead."""
        return self.role.epoch_start_offset if isinstance(self.role, Leader) else -1

    @property
    def replicas(self) -> Mapping[ReplicaKey, Progress]:
        """On a leader: the progress of all other replicas."""
        return self.role.replicas if isinstance(self.role, Leader) else {}

    @property
    def quorum_contact_ms(self) -> int | None:
        """On a leader: when a majority last fetched; a successor may have been elected since. Otherwise
        None."""
        return self.role.quorum_contact_ms(self.voters, self.key) if isinstance(self.role, Leader) else None

    @property
    def end_epoch_acknowledged(self) -> bool:
        """Whether every voter has acknowledged that this node no longer leads."""
        return not isinstance(self.role, Resigned) or not self.role.unnotified

    def leads(self, epoch: int) -> bool:
        return self.state is State.LEADER and epoch == self.epoch

    # -- the machine -----------------------------------------------------------------------------------------

    def replay(self, record: QuorumRecord, offset: int) -> None:
        self.log.replay(record, offset)

    def handle(self, event: RaftEvent, now: Instant) -> RaftOutcome:
        self.now_ms = now.monotonic_ms
        effects = self.effects = Effects()
        self._handle_event(event)
        self._expire_deadlines()
        self._send_requests()
        return effects.outcome()

    def deadline_ms(self) -> int | None:
        """When ``TimerFired`` is due unless another event comes first."""
        if isinstance(self.role, Leader):
            own = leading.deadline_ms(self, self.role)
        elif isinstance(self.role, Follower):
            own = self.role.deadline_ms
            if self.role.update_at_ms > self.now_ms:
                own = min(own, self.role.update_at_ms)
        else:
            own = self.role.deadline_ms
        deadlines = [at_ms for at_ms in self.retry_at_ms.values() if at_ms > self.now_ms]
        if own is not None:
            deadlines.append(own)
        return min(deadlines, default=None)

    def _handle_event(self, event: RaftEvent) -> None:
        match event:
            case Started():
                self._start()
            case TimerFired():
                pass  # Deadlines are checked after every event.
            case RequestReceived(token, request):
                self._on_request(token, request)
            case ResponseReceived(node_id, request):
                if self.in_flight.get(node_id) is request:
                    del self.in_flight[node_id]
                    self._on_response(event)
            case RequestFailed(node_id, request):
                if self.in_flight.get(node_id) is request:
                    del self.in_flight[node_id]
                    following.on_request_failed(self, node_id)
            case PeerGone(node_id):
                self._peer_gone(node_id)
            case Appended(end_offset, epoch):
                self.log.appended(end_offset, epoch)
                following.advance_high_watermark(self)
                leading.complete_waiting_fetches(self)
            case Flushed(end_offset):
                self.log.flushed(end_offset)
                leading.advance_high_watermark(self)
            case FetchedBatchesAppended():
                following.on_log_changed(self)
            case Truncated(end_offset):
                self.log.truncated(end_offset)
                following.on_log_changed(self)
            case SnapshotWritten(id, start_offset):
                self.log.snapshot_taken(id, start_offset)
            case SnapshotLoaded(id, control):
                self.log.snapshot_loaded(id, control)
                self.high_watermark = max(self.high_watermark, id.offset)
                following.on_log_changed(self)
            case UpgradeRequested(token):
                voter_changes.on_upgrade_request(self, token)
            case Stopping():
                if self.state is State.LEADER:
                    self.resign()

    def _on_request(self, token: Hashable, request: RaftRequest) -> None:
        match request:
            case RaftFetchRequest():
                leading.on_fetch_request(self, token, request)
            case RaftVoteRequest():
                elections.on_vote_request(self, token, request)
            case BeginEpochRequest():
                elections.on_begin_epoch_request(self, token, request)
            case EndEpochRequest():
                elections.on_end_epoch_request(self, token, request)
            case SnapshotRequest():
                leading.on_snapshot_request(self, token, request)
            case AddVoterRequest():
                voter_changes.on_add_request(self, token, request)
            case RemoveVoterRequest():
                voter_changes.on_remove_request(self, token, request)
            case UpdateVoterRequest():
                voter_changes.on_update_request(self, token, request)
            case VersionsRequest():
                raise AssertionError("the driver answers VersionsRequest")

    def _on_response(self, event: ResponseReceived) -> None:
        node_id, response = event.node_id, event.response
        changed = self.observe(response.epoch, response.leader_id, response.endpoint)
        match event.request:
            case RaftFetchRequest() as request if not changed or isinstance(self.role, Unattached):
                following.on_fetch_response(self, node_id, request, response)
            case SnapshotRequest() as request:
                following.on_snapshot_chunk(self, node_id, request, response)
            case RaftVoteRequest() as request:
                elections.on_vote_response(self, node_id, request, response)
            case BeginEpochRequest():
                leading.on_begin_epoch_response(self, node_id, response)
            case EndEpochRequest():
                elections.on_end_epoch_response(self, node_id, response)
            case VersionsRequest():
                voter_changes.on_versions_received(self, node_id, response)
            case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest() as request:
                following.on_voter_request_answered(self, request, response)

    def _peer_gone(self, node_id: int) -> None:
        match self.role:
            case Leader() as leader:
                leading.on_peer_gone(self, leader, node_id)
            case Follower() as follower if follower.leader_id == node_id and not follower.leader_gone:
                following.on_leader_gone(self, follower)

    def _expire_deadlines(self) -> None:
        if isinstance(self.role, Leader):
            leading.on_deadlines(self, self.role)
        elif self.role.deadline_ms <= self.now_ms:
            elections.on_deadline(self)
        for node_id in [each for each, at_ms in self.retry_at_ms.items() if at_ms <= self.now_ms]:
            del self.retry_at_ms[node_id]

    def _send_requests(self) -> None:
        match self.role:
            case Leader() as leader:
                leading.send_begin_epoch(self, leader)
            case Follower() as follower:
                following.follow_leader(self, follower)
            case Unattached():
                following.find_leader(self)
            case Prospective() | Candidate() as role:
                elections.send_vote_requests(self, role)
            case Resigned() as resigned:
                elections.send_end_epoch(self, resigned)

    # -- start -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        stored = self.quorum
        self._require_known_voters()
        self.role = Unattached(self.now_ms + self.election_timeout_ms())
        if stored.epoch < self.log.last_epoch:
            # The quorum state was lost or is an old copy. What this node did in the log's epoch is
            # unknown, so it votes in later epochs only.
            self.become_unattached(self.log.last_epoch + (self.is_voter and bool(self.other_voters)))
        elif stored.leader_id == self.key.node_id:
            self.state = State.LEADER
            self.become_resigned()
        elif self._voted_for_itself(stored) and self.is_voter and self.log.last_epoch < stored.epoch:
            self.state = State.PROSPECTIVE
            self.start_election()
        elif stored.leader_id != NO_NODE and self.address_of(stored.leader_id) is not None:
            self.become_follower(stored.epoch, stored.leader_id, None)
        if self.is_voter and not self.other_voters and self.state is not State.LEADER:
            self.become_prospective()

    def _voted_for_itself(self, stored: QuorumState) -> bool:
        same_directory = stored.voted_directory_id in (ZERO_UUID, self.key.directory_id)
        voted_for_itself = stored.voted_id == self.key.node_id and same_directory
        return voted_for_itself and stored.leader_id == NO_NODE

    def _require_known_voters(self) -> None:
        """Raises ConfigError if this node neither votes nor knows a possible leader."""
        others = [voter_id for voter_id in self.voters.ids if voter_id != self.key.node_id]
        if self.is_voter or others or self.bootstrap:
            return
        if not self.voters.voters:
            raise ConfigError(
                "The metadata quorum has no voters: the data directory was formatted without voters and "
                "controller.quorum.voters is not set. Format it with 'ruslo storage format --standalone', "
                f"or set controller.quorum.voters={self.key.node_id}@HOST:PORT"
            )
        me = Voter(self.key.node_id, self.key.directory_id if self.log.kraft_version > 0 else ZERO_UUID)
        raise ConfigError(
            f"This node is {me}, but the only voter of the metadata quorum is {self.voters}. Correct node.id "
            "or controller.quorum.voters, or start on a fresh data directory formatted with "
            "'ruslo storage format --standalone'"
        )
