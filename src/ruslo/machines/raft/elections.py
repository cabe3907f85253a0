"""Elections: timeouts, pre-votes, votes, and the begin and end of a leader's epoch.

========== ===================================== ==========================================================
in state   starts an election when               grants a vote (pre-vote)
========== ===================================== ==========================================================
Unattached its election timeout has passed, or   to the first candidate that is up to date (to all that are)
           most voters know no leader either
Prospective                                      as Unattached
Candidate  its backoff after a defeat is over    never: it voted for itself (to all up to date)
Follower   the fetch timeout has passed, or the  never: the epoch has a leader (to all up to date, but only
           leader resigned or is gone            if it has never fetched from the leader or knows it gone)
Leader     –                                     never (never)
Resigned   –                                     never (to all up to date)
========== ===================================== ==========================================================

A candidate is up to date if its log ends in a later epoch, or in the same epoch and not before the voter's.
A request from a later epoch first makes the receiver Unattached in that epoch."""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.raft.leader import Leader
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from ruslo.machines.raft.rpc import (
    BeginEpochRequest,
    EndEpochRequest,
    EpochResponse,
    RaftFetchResponse,
    RaftResponse,
    RaftVoteRequest,
    RaftVoteResponse,
    ReplicaKey,
)
from ruslo.machines.raft.settings import BACKOFF_BASE_MS
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID

# -- requests of other nodes ---------------------------------------------------------------------------------


def on_vote_request(node: QuorumNode, token: Hashable, request: RaftVoteRequest) -> None:
    error, granted = ErrorCode.NONE, False
    if not node.is_addressed(request.voter):
        error = ErrorCode.INVALID_VOTER_KEY
    elif request.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif request.candidate.node_id < 0:
        error = ErrorCode.INVALID_REQUEST
    else:
        if request.epoch > node.epoch:
            node.become_unattached(request.epoch)
        up_to_date = (request.last_epoch, request.end_offset) >= (node.log.last_epoch, node.log.end_offset)
        granted = up_to_date and (
            _grants_pre_vote(node) if request.pre_vote else _grants_vote(node, request.candidate)
        )
        if granted and not request.pre_vote:
            node.vote_for(request.candidate)
            if isinstance(node.role, Unattached):
                # Give the candidate time to win.
                node.role.deadline_ms = node.now_ms + node.election_timeout_ms()
    node.effects.respond(
        token, RaftVoteResponse(error, node.epoch, node.leader_id, node.leader_endpoint, granted)
    )


def _grants_pre_vote(node: QuorumNode) -> bool:
    match node.role:
        case Leader():
            return False
        case Follower() as follower:
            return follower.leader_gone or not follower.has_fetched
    return True


def _grants_vote(node: QuorumNode, candidate: ReplicaKey) -> bool:
    quorum = node.quorum
    if quorum.leader_id != NO_NODE:
        return False
    if quorum.voted_id == NO_NODE:
        return True
    # Under kraft.version 0 the directory id of the candidate is not stored with the vote.
    same_directory = quorum.voted_directory_id in (ZERO_UUID, candidate.directory_id)
    return quorum.voted_id == candidate.node_id and same_directory


def on_begin_epoch_request(node: QuorumNode, token: Hashable, request: BeginEpochRequest) -> None:
    error = ErrorCode.NONE
    if not node.is_addressed(request.voter):
        error = ErrorCode.INVALID_VOTER_KEY
    elif request.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif request.leader_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif not _follow(node, request.epoch, request.leader_id, request):
        error = ErrorCode.UNKNOWN_LEADER_EPOCH
    node.effects.respond(token, node.response(EpochResponse, error))


def on_end_epoch_request(node: QuorumNode, token: Hashable, request: EndEpochRequest) -> None:
    error = ErrorCode.NONE
    if request.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif request.leader_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif _follow(node, request.epoch, request.leader_id, None):
        assert isinstance(node.role, Follower)
        node.role.leader_gone = True
        if node.is_voter:
            election_at_ms = node.now_ms + _succession_delay_ms(node, request.preferred)
            node.role.deadline_ms = min(node.role.deadline_ms, election_at_ms)
        else:
            node.become_unattached(node.epoch)
    node.effects.respond(token, node.response(EpochResponse, error))


def _follow(node: QuorumNode, epoch: int, leader_id: int, begun: BeginEpochRequest | None) -> bool:
    """Become or stay a follower of this leader; False if that contradicts what the node knows."""
    role = node.role
    if leader_id == node.key.node_id or (epoch == node.epoch and isinstance(role, Leader)):
        return False
    if epoch == node.epoch and node.quorum.leader_id not in (NO_NODE, leader_id):
        return False
    following = isinstance(role, Follower) and epoch == node.epoch
    if begun is None and isinstance(role, (Prospective, Candidate)) and epoch == node.epoch:
        return False  # The election of its successor has begun.
    if not following or (begun is not None and isinstance(role, Follower) and role.leader_gone):
        endpoint = begun.endpoints[0] if begun is not None and begun.endpoints else None
        node.become_follower(epoch, leader_id, endpoint)
    return True


def _succession_delay_ms(node: QuorumNode, preferred: tuple[ReplicaKey, ...]) -> int:
    """The preferred successor starts at once; each next one waits twice as long as the one before."""
    if not preferred:
        return node.stagger_ms({voter.node_id for voter in node.other_voters})
    rank = next((at for at, key in enumerate(preferred) if node.is_addressed(key)), 0)
    if rank == 0:
        return 0
    slot_ms = max(node.settings.election_backoff_max_ms >> (len(preferred) - 1), BACKOFF_BASE_MS)
    return min(slot_ms << (rank - 1), node.settings.election_backoff_max_ms)


# -- responses -----------------------------------------------------------------------------------------------


def on_vote_response(
    node: QuorumNode, voter_id: int, request: RaftVoteRequest, response: RaftResponse
) -> None:
    role = node.role
    right_round = isinstance(role, Prospective) if request.pre_vote else isinstance(role, Candidate)
    if request.epoch != node.epoch or not right_round:
        return
    assert isinstance(role, (Prospective, Candidate))
    if response.error is ErrorCode.UNSUPPORTED_VERSION and request.pre_vote:
        # The voter does not support pre-votes (KIP-996): go on to a real election.
        node.become_candidate()
        return
    if response.error is not ErrorCode.NONE or not isinstance(response, RaftVoteResponse):
        node.back_off(voter_id)
        return
    (role.tally.granted if response.granted else role.tally.refused).add(voter_id)
    if role.tally.is_won:
        if isinstance(role, Prospective):
            node.become_candidate()
        else:
            node.become_leader()
    elif role.tally.is_lost:
        _lose_election(node, role)


def on_end_epoch_response(node: QuorumNode, voter_id: int, response: RaftResponse) -> None:
    if isinstance(node.role, Resigned):
        if response.error in (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH):
            node.role.unnotified.discard(voter_id)
        else:
            node.back_off(voter_id)


def on_no_leader_known(node: QuorumNode, voter_id: int, response: RaftFetchResponse) -> None:
    """Another voter reported that it knows no leader either."""
    role = node.role
    if not isinstance(role, Unattached) or not node.is_voter or response.leader_id != NO_NODE:
        return
    if voter_id not in node.voters.ids or voter_id in role.voters_without_leader:
        return
    role.voters_without_leader.add(voter_id)
    if len(role.voters_without_leader) + 1 == len(node.voters.voters) // 2 + 1:
        # A majority would know the leader if there were one: do not wait any longer.
        role.deadline_ms = min(role.deadline_ms, node.now_ms + node.stagger_ms(role.voters_without_leader))


def _lose_election(node: QuorumNode, role: Prospective | Candidate) -> None:
    if isinstance(role, Candidate):
        if not role.lost:
            role.lost = True
            role.deadline_ms = node.now_ms + node.election_backoff_ms(role.elections_lost + 1)
    elif role.leader_id != NO_NODE:
        node.become_follower(node.epoch, role.leader_id, None)
    else:
        node.become_unattached(node.epoch)


# -- deadlines and own requests ------------------------------------------------------------------------------


def on_deadline(node: QuorumNode) -> None:
    """The deadline of the node's state has passed."""
    match node.role:
        case Resigned():
            # An observer must not raise the epoch: it could not follow any leader then.
            node.become_unattached(node.epoch + (1 if node.can_be_candidate else 0))
        case Prospective() as role:
            _lose_election(node, role)
        case Unattached() as role if not node.can_be_candidate:
            role.deadline_ms = node.now_ms + node.election_timeout_ms()
        case Unattached() | Candidate() | Follower() if node.can_be_candidate:
            node.become_prospective()
        case Candidate() | Follower():
            node.become_unattached(node.epoch)


def send_vote_requests(node: QuorumNode, role: Prospective | Candidate) -> None:
    if isinstance(role, Candidate) and role.lost:
        return
    outstanding = role.tally.outstanding()
    for voter in role.tally.voters.voters:
        if voter.node_id in outstanding:
            request = RaftVoteRequest(
                epoch=node.epoch,
                candidate=node.key,
                voter=ReplicaKey(voter.node_id, voter.directory_id),
                last_epoch=node.log.last_epoch,
                end_offset=node.log.end_offset,
                pre_vote=isinstance(role, Prospective),
            )
            node.send(voter.node_id, request)


def send_end_epoch(node: QuorumNode, role: Resigned) -> None:
    for voter_id in sorted(role.unnotified):
        node.send(voter_id, EndEpochRequest(node.epoch, node.key.node_id, role.preferred))
