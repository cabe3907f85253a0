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
from random import Random

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
from ruslo.machines.raft.log_view import LogView, QuorumRecord
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
from ruslo.machines.raft.settings import RaftSettings
from ruslo.machines.raft.states import State
from ruslo.machines.raft.voters import Endpoint, Voter, VoterSet
from ruslo.model.errors import ConfigError
from ruslo.model.ids import ZERO_UUID, Uuid


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
        bootstrap: Mapping[int, Endpoint] | None = None,
        settings: RaftSettings | None = None,
        random: Random,
    ) -> None:
        """``endpoints``: this node's controller listeners as other nodes reach them.
        ``static_voters``: from ``controller.quorum.voters``, in force under kraft.version 0.
        ``bootstrap``: more addresses to find the leader at, under ids below -1, which no node has."""
        self._node = QuorumNode(
            key=ReplicaKey(node_id, directory_id),
            endpoints=endpoints,
            static_voters=static_voters,
            bootstrap=bootstrap or {},
            settings=settings or RaftSettings(),
            random=random,
            quorum=quorum,
            log=log,
        )

    # -- state -----------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self._node.key.node_id

    @property
    def state(self) -> State:
        return self._node.state

    @property
    def log(self) -> LogView:
        return self._node.log

    @property
    def quorum(self) -> QuorumState:
        return self._node.quorum

    @property
    def epoch(self) -> int:
        return self._node.epoch

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed for good; -1 while unknown."""
        return self._node.high_watermark

    @property
    def leader_id(self) -> int:
        """The leader of the epoch; -1 if there is none, or it has resigned or died."""
        return self._node.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return self._node.leader_endpoint()

    @property
    def epoch_start_offset(self) -> int:
        """The offset of the LeaderChange record of the epoch that this node leads; -1 if it does not lead."""
        return self._node.role.epoch_start_offset if isinstance(self._node.role, Leader) else -1

    @property
    def voters(self) -> VoterSet:
        return self._node.voters

    @property
    def is_voter(self) -> bool:
        return self._node.is_voter

    @property
    def replicas(self) -> Mapping[ReplicaKey, Progress]:
        """On a leader: the progress of all other replicas."""
        return self._node.role.replicas if isinstance(self._node.role, Leader) else {}

    @property
    def quorum_contact_ms(self) -> int | None:
        """On a leader: when a majority last fetched; a successor may have been elected since. Otherwise
        None."""
        role, node = self._node.role, self._node
        return role.quorum_contact_ms(node.voters, node.key) if isinstance(role, Leader) else None

    @property
    def end_epoch_acknowledged(self) -> bool:
        """Whether every voter has acknowledged that this node no longer leads."""
        return not isinstance(self._node.role, Resigned) or not self._node.role.unnotified

    def address_of(self, node_id: int) -> Endpoint | None:
        return self._node.address_of(node_id)

    def leads(self, epoch: int) -> bool:
        return self.state is State.LEADER and epoch == self.epoch

    # -- the machine -----------------------------------------------------------------------------------------

    def replay(self, record: QuorumRecord, offset: int) -> None:
        self._node.log.replay(record, offset)

    def handle(self, event: RaftEvent, now: Instant) -> RaftOutcome:
        node = self._node
        node.now_ms = now.monotonic_ms
        effects = node.effects = Effects()
        self._handle_event(event)
        self._expire_deadlines()
        self._send_requests()
        return effects.outcome()

    def deadline_ms(self) -> int | None:
        """When ``TimerFired`` is due unless another event comes first."""
        node = self._node
        if isinstance(node.role, Leader):
            own = leading.deadline_ms(node, node.role)
        elif isinstance(node.role, Follower):
            own = node.role.deadline_ms
            if node.role.update_at_ms > node.now_ms:
                own = min(own, node.role.update_at_ms)
        else:
            own = node.role.deadline_ms
        deadlines = [at_ms for at_ms in node.retry_at_ms.values() if at_ms > node.now_ms]
        if own is not None:
            deadlines.append(own)
        return min(deadlines, default=None)

    def _handle_event(self, event: RaftEvent) -> None:
        node = self._node
        match event:
            case Started():
                self._start()
            case TimerFired():
                pass  # Deadlines are checked after every event.
            case RequestReceived(token, request):
                self._on_request(token, request)
            case ResponseReceived(node_id, request):
                if node.in_flight.get(node_id) is request:
                    del node.in_flight[node_id]
                    self._on_response(event)
            case RequestFailed(node_id, request):
                if node.in_flight.get(node_id) is request:
                    del node.in_flight[node_id]
                    following.on_request_failed(node, node_id)
            case PeerGone(node_id):
                self._peer_gone(node_id)
            case Appended(end_offset, epoch):
                node.log.appended(end_offset, epoch)
                following.advance_high_watermark(node)
                leading.complete_waiting_fetches(node)
            case Flushed(end_offset):
                node.log.flushed(end_offset)
                leading.advance_high_watermark(node)
            case FetchedBatchesAppended():
                following.on_log_changed(node)
            case Truncated(end_offset):
                node.log.truncated(end_offset)
                following.on_log_changed(node)
            case SnapshotWritten(id, start_offset):
                node.log.snapshot_taken(id, start_offset)
            case SnapshotLoaded(id, control):
                node.log.snapshot_loaded(id, control)
                node.high_watermark = max(node.high_watermark, id.offset)
                following.on_log_changed(node)
            case UpgradeRequested(token):
                voter_changes.on_upgrade_request(node, token)
            case Stopping():
                if node.state is State.LEADER:
                    node.resign()

    def _on_request(self, token: Hashable, request: RaftRequest) -> None:
        node = self._node
        match request:
            case RaftFetchRequest():
                leading.on_fetch_request(node, token, request)
            case RaftVoteRequest():
                elections.on_vote_request(node, token, request)
            case BeginEpochRequest():
                elections.on_begin_epoch_request(node, token, request)
            case EndEpochRequest():
                elections.on_end_epoch_request(node, token, request)
            case SnapshotRequest():
                leading.on_snapshot_request(node, token, request)
            case AddVoterRequest():
                voter_changes.on_add_request(node, token, request)
            case RemoveVoterRequest():
                voter_changes.on_remove_request(node, token, request)
            case UpdateVoterRequest():
                voter_changes.on_update_request(node, token, request)
            case VersionsRequest():
                raise AssertionError("the driver answers VersionsRequest")

    def _on_response(self, event: ResponseReceived) -> None:
        node, node_id, response = self._node, event.node_id, event.response
        changed = node.observe(response.epoch, response.leader_id, response.endpoint)
        match event.request:
            case RaftFetchRequest() as request if not changed or isinstance(node.role, Unattached):
                following.on_fetch_response(node, node_id, request, response)
            case SnapshotRequest() as request:
                following.on_snapshot_chunk(node, node_id, request, response)
            case RaftVoteRequest() as request:
                elections.on_vote_response(node, node_id, request, response)
            case BeginEpochRequest():
                leading.on_begin_epoch_response(node, node_id, response)
            case EndEpochRequest():
                elections.on_end_epoch_response(node, node_id, response)
            case VersionsRequest():
                voter_changes.on_versions_received(node, node_id, response)
            case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest() as request:
                following.on_voter_request_answered(node, request, response)

    def _peer_gone(self, node_id: int) -> None:
        node = self._node
        match node.role:
            case Leader() as leader:
                leading.on_peer_gone(node, leader, node_id)
            case Follower() as follower if follower.leader_id == node_id and not follower.leader_gone:
                following.on_leader_gone(node, follower)

    def _expire_deadlines(self) -> None:
        node = self._node
        if isinstance(node.role, Leader):
            leading.on_deadlines(node, node.role)
        elif node.role.deadline_ms <= node.now_ms:
            elections.on_deadline(node)
        for node_id in [each for each, at_ms in node.retry_at_ms.items() if at_ms <= node.now_ms]:
            del node.retry_at_ms[node_id]

    def _send_requests(self) -> None:
        node = self._node
        match node.role:
            case Leader() as leader:
                leading.send_begin_epoch(node, leader)
            case Follower() as follower:
                following.follow_leader(node, follower)
            case Unattached():
                following.find_leader(node)
            case Prospective() | Candidate() as role:
                elections.send_vote_requests(node, role)
            case Resigned() as resigned:
                elections.send_end_epoch(node, resigned)

    # -- start -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        node, stored = self._node, self._node.quorum
        self._require_known_voters()
        node.role = Unattached(node.now_ms + node.election_timeout_ms())
        if stored.epoch < node.log.last_epoch:
            # The quorum state was lost or is an old copy. What this node did in the log's epoch is
            # unknown, so it votes in later epochs only.
            node.become_unattached(node.log.last_epoch + (node.is_voter and bool(node.other_voters)))
        elif stored.leader_id == node.key.node_id:
            node.state = State.LEADER
            node.become_resigned()
        elif self._voted_for_itself(stored) and node.is_voter and node.log.last_epoch < stored.epoch:
            node.state = State.PROSPECTIVE
            node.start_election()
        elif stored.leader_id != NO_NODE and node.address_of(stored.leader_id) is not None:
            node.become_follower(stored.epoch, stored.leader_id, None)
        if node.is_voter and not node.other_voters and node.state is not State.LEADER:
            node.become_prospective()

    def _voted_for_itself(self, stored: QuorumState) -> bool:
        same_directory = stored.voted_directory_id in (ZERO_UUID, self._node.key.directory_id)
        voted_for_itself = stored.voted_id == self._node.key.node_id and same_directory
        return voted_for_itself and stored.leader_id == NO_NODE

    def _require_known_voters(self) -> None:
        """Raises ConfigError if this node neither votes nor knows a possible leader."""
        node = self._node
        others = [voter_id for voter_id in node.voters.ids if voter_id != node.key.node_id]
        if node.is_voter or others or node.bootstrap:
            return
        if not node.voters.voters:
            raise ConfigError(
                "The metadata quorum has no voters: the data directory was formatted without voters and "
                "controller.quorum.voters is not set. Format it with 'ruslo storage format --standalone', "
                f"or set controller.quorum.voters={node.key.node_id}@HOST:PORT"
            )
        me = Voter(node.key.node_id, node.key.directory_id if node.log.kraft_version > 0 else ZERO_UUID)
        raise ConfigError(
            f"This node is {me}, but the only voter of the metadata quorum is {node.voters}. Correct node.id "
            "or "
            "controller.quorum.voters, or start on a fresh data directory formatted with "
            "'ruslo storage format --standalone'"
        )
