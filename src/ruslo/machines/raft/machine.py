"""The metadata quorum as one of its nodes sees it: Raft, but the followers pull (KIP-595).

Read ``states.py`` first (the states and who may follow whom), then ``quorum_node.py`` (what a node knows, how
it goes from state to state), then what happens in the states: ``elections.py``, ``following.py``,
``leading.py``, ``voter_changes.py``. This file gives every event to the one it concerns.

Every event is handled in three steps: what it means, what the time means, and what is to be asked of others,
which follows from the state alone. How a sole voter comes to lead, all in one go::

    Started    as stored: led the epoch -> Resigned, voted for itself in it -> Candidate, else Unattached
               -> Prospective (all voters, itself, would vote for it) -> Candidate, epoch + 1 -> Leader
               out: persist (epoch + 1, leader); append LeaderChange, and KRaftVersion and Voters if the log
               does not hold them, or Voters alone if this node moved to another address
    Flushed    the high watermark is what a majority of the voters has on disk, but only once that lies beyond
               the start of the epoch (Raft §5.4.2); so it moves when LeaderChange is on disk

A Candidate that restarts may win the epoch it voted in: it is sure that nothing was appended in it, because
"leader" is durable before the first append. Should the log say otherwise, the epoch is raised once more.

State that comes from the log changes in ``replay`` only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from random import Random

from ruslo.machines.raft import elections, following, leading, voter_changes
from ruslo.machines.raft.effects import Effects, RaftOutcome
from ruslo.machines.raft.events import (
    Answered,
    Appended,
    Asked,
    Flushed,
    PeerGone,
    RaftEvent,
    SnapshotLoaded,
    SnapshotTaken,
    Started,
    Stopping,
    Taken,
    TimerFired,
    Truncated,
    Unanswered,
    UpgradeAsked,
)
from ruslo.machines.raft.leader import Leader, Progress
from ruslo.machines.raft.log_view import LogView, QuorumRecord
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.quorum_state import NO_NODE, QuorumState
from ruslo.machines.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from ruslo.machines.raft.rpc import (
    AddVoterAsk,
    Ask,
    BeginEpochAsk,
    EndEpochAsk,
    FetchAsk,
    RemoveVoterAsk,
    ReplicaKey,
    SnapshotAsk,
    UpdateVoterAsk,
    VersionsAsk,
    VoteAsk,
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
        random: Random | None = None,
    ) -> None:
        """``endpoints``: where other nodes reach this one's controller listeners.
        ``static_voters``: from ``controller.quorum.voters``, in force under kraft.version 0.
        ``bootstrap``: where else to look for the leader, by ids below -1, which are nobody's."""
        self._node = QuorumNode(
            key=ReplicaKey(node_id, directory_id),
            endpoints=endpoints,
            static_voters=static_voters,
            bootstrap=bootstrap or {},
            settings=settings or RaftSettings(),
            random=random or Random(),
            quorum=quorum,
            log=log,
        )

    # -- what others may look at -----------------------------------------------------------------------------

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
        """Everything before it is committed, and stays; -1 as long as nothing is known."""
        return self._node.high_watermark

    @property
    def leader_id(self) -> int:
        """The leader of the epoch, -1 if it has none, or none any more."""
        return self._node.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return self._node.leader_endpoint()

    @property
    def epoch_start_offset(self) -> int:
        """Where the epoch that this node leads begins: the offset of its LeaderChange record."""
        return self._node.role.epoch_start_offset if isinstance(self._node.role, Leader) else -1

    @property
    def voters(self) -> VoterSet:
        return self._node.voters

    @property
    def is_voter(self) -> bool:
        return self._node.is_voter

    @property
    def replicas(self) -> Mapping[ReplicaKey, Progress]:
        """On a leader: how far everybody else is."""
        return self._node.role.replicas if isinstance(self._node.role, Leader) else {}

    @property
    def quorum_contact_ms(self) -> int | None:
        """On a leader: when a majority last asked it; since then it may have a successor. Else None."""
        role, node = self._node.role, self._node
        return role.quorum_contact_ms(node.voters, node.key) if isinstance(role, Leader) else None

    @property
    def said_goodbye(self) -> bool:
        """Whether there is nobody left who has to be told that this node does not lead any more."""
        return not isinstance(self._node.role, Resigned) or not self._node.role.untold

    def address_of(self, node_id: int) -> Endpoint | None:
        return self._node.address_of(node_id)

    def leads(self, epoch: int) -> bool:
        return self.state is State.LEADER and epoch == self.epoch

    # -- the machine -----------------------------------------------------------------------------------------

    def replay(self, offset: int, record: QuorumRecord) -> None:
        self._node.log.replay(offset, record)

    def handle(self, event: RaftEvent, now_ms: int) -> RaftOutcome:
        node = self._node
        node.now_ms = now_ms
        effects = node.effects = Effects()
        self._take_in(event)
        self._watch_time()
        self._ask_others()
        return effects.outcome()

    def deadline_ms(self) -> int | None:
        """When ``TimerFired`` is due, unless another event comes before."""
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

    def _take_in(self, event: RaftEvent) -> None:
        node = self._node
        match event:
            case Started():
                self._start()
            case TimerFired():
                pass  # The time is looked at after every event.
            case Asked(token, ask):
                self._asked(token, ask)
            case Answered(node_id, ask):
                if node.in_flight.get(node_id) is ask:
                    del node.in_flight[node_id]
                    self._answered(event)
            case Unanswered(node_id, ask):
                if node.in_flight.get(node_id) is ask:
                    del node.in_flight[node_id]
                    following.on_unanswered(node, node_id)
            case PeerGone(node_id):
                self._peer_gone(node_id)
            case Appended(end_offset, epoch):
                node.log.appended(end_offset, epoch)
                following.advance_high_watermark(node)
                leading.answer_news(node)
            case Flushed(end_offset):
                node.log.flushed(end_offset)
                leading.advance_high_watermark(node)
            case Taken():
                following.on_log_changed(node)
            case Truncated(end_offset):
                node.log.truncated(end_offset)
                following.on_log_changed(node)
            case SnapshotTaken(id, start_offset):
                node.log.snapshot_taken(id, start_offset)
            case SnapshotLoaded(id, control):
                node.log.snapshot_loaded(id, control)
                node.high_watermark = max(node.high_watermark, id.offset)
                following.on_log_changed(node)
            case UpgradeAsked(token):
                voter_changes.on_upgrade_asked(node, token)
            case Stopping():
                if node.state is State.LEADER:
                    node.resign()

    def _asked(self, token: Hashable, ask: Ask) -> None:
        node = self._node
        match ask:
            case FetchAsk():
                leading.on_fetch_asked(node, token, ask)
            case VoteAsk():
                elections.on_vote_asked(node, token, ask)
            case BeginEpochAsk():
                elections.on_epoch_begun(node, token, ask)
            case EndEpochAsk():
                elections.on_epoch_ended(node, token, ask)
            case SnapshotAsk():
                leading.on_snapshot_asked(node, token, ask)
            case AddVoterAsk():
                voter_changes.on_add_asked(node, token, ask)
            case RemoveVoterAsk():
                voter_changes.on_remove_asked(node, token, ask)
            case UpdateVoterAsk():
                voter_changes.on_update_asked(node, token, ask)
            case VersionsAsk():
                raise AssertionError("what a node supports is the driver's to say")

    def _answered(self, event: Answered) -> None:
        node, node_id, answer = self._node, event.node_id, event.answer
        moved = node.observe(answer.epoch, answer.leader_id, answer.endpoint)
        match event.ask:
            case FetchAsk() as ask if not moved or isinstance(node.role, Unattached):
                following.on_fetched(node, node_id, ask, answer)
            case SnapshotAsk() as ask:
                following.on_snapshot_piece(node, node_id, ask, answer)
            case VoteAsk() as ask:
                elections.on_vote_answered(node, node_id, ask, answer)
            case BeginEpochAsk():
                leading.on_announced(node, node_id, answer)
            case EndEpochAsk():
                elections.on_epoch_end_answered(node, node_id, answer)
            case VersionsAsk():
                voter_changes.on_versions_told(node, node_id, answer)
            case AddVoterAsk() | RemoveVoterAsk() | UpdateVoterAsk() as ask:
                following.on_introduced(node, ask, answer)

    def _peer_gone(self, node_id: int) -> None:
        node = self._node
        match node.role:
            case Leader() as leader:
                leading.on_peer_gone(node, leader, node_id)
            case Follower() as follower if follower.leader_id == node_id and not follower.leader_gone:
                following.on_leader_gone(node, follower)

    def _watch_time(self) -> None:
        node = self._node
        if isinstance(node.role, Leader):
            leading.on_time(node, node.role)
        elif node.role.deadline_ms <= node.now_ms:
            elections.on_time(node)
        for node_id in [each for each, at_ms in node.retry_at_ms.items() if at_ms <= node.now_ms]:
            del node.retry_at_ms[node_id]

    def _ask_others(self) -> None:
        node = self._node
        match node.role:
            case Leader() as leader:
                leading.announce(node, leader)
            case Follower() as follower:
                following.follow_leader(node, follower)
            case Unattached():
                following.look_for_leader(node)
            case Prospective() | Candidate() as role:
                elections.ask_for_votes(node, role)
            case Resigned() as resigned:
                elections.say_goodbye(node, resigned)

    # -- start -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        node, stored = self._node, self._node.quorum
        self._require_company()
        node.role = Unattached(node.now_ms + node.election_timeout_ms())
        if stored.epoch < node.log.last_epoch:
            # The quorum state was lost or is an old copy. What this node did in the log's epoch is
            # unknown, so it takes part in later ones only.
            node.become_unattached(node.log.last_epoch + (node.is_voter and bool(node.other_voters)))
        elif stored.leader_id == node.key.node_id:
            node.state = State.LEADER
            node.become_resigned()
        elif self._voted_for_itself(stored) and node.is_voter and node.log.last_epoch < stored.epoch:
            node.state = State.PROSPECTIVE
            node.stand()
        elif stored.leader_id != NO_NODE and node.address_of(stored.leader_id) is not None:
            node.become_follower(stored.epoch, stored.leader_id, None)
        if node.is_voter and not node.other_voters and node.state is not State.LEADER:
            node.become_prospective()

    def _voted_for_itself(self, stored: QuorumState) -> bool:
        same_directory = stored.voted_directory_id in (ZERO_UUID, self._node.key.directory_id)
        voted_for_itself = stored.voted_id == self._node.key.node_id and same_directory
        return voted_for_itself and stored.leader_id == NO_NODE

    def _require_company(self) -> None:
        """Raises ConfigError if this node neither votes nor knows anybody who could lead it."""
        node = self._node
        others = [voter_id for voter_id in node.voters.ids if voter_id != node.key.node_id]
        if node.is_voter or others or node.bootstrap:
            return
        if not node.voters.voters:
            raise ConfigError(
                "nobody votes in the metadata quorum: the data directory was formatted without voters and "
                "controller.quorum.voters is not set. Format it with 'ruslo storage format --standalone', "
                f"or set controller.quorum.voters={node.key.node_id}@HOST:PORT"
            )
        me = Voter(node.key.node_id, node.key.directory_id if node.log.kraft_version > 0 else ZERO_UUID)
        raise ConfigError(
            f"this node is {me}, but the metadata quorum's only voter is {node.voters}. Correct node.id or "
            "controller.quorum.voters, or start on a fresh data directory formatted with "
            "'ruslo storage format --standalone'"
        )
