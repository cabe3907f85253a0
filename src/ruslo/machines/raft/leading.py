"""A node that leads: it serves fetches, advances the high watermark and resigns when it loses its quorum.

A fetch without new data waits until something is appended, the high watermark advances, its time is up or
the leadership ends."""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.raft.leader import Leader, WaitingFetch, replica_key
from ruslo.machines.raft.quorum_node import UNKNOWN_HIGH_WATERMARK, QuorumNode
from ruslo.machines.raft.rpc import (
    BeginEpochRequest,
    EpochEnd,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftResponse,
    ReplicaKey,
    SnapshotRequest,
    SnapshotResponse,
    VersionsRequest,
)
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voter_changes import on_change_timeout, on_committed
from ruslo.machines.raft.voters import Voter
from ruslo.model.errors import ErrorCode


def leader_error(node: QuorumNode, epoch: int) -> ErrorCode:
    """The error of a request for the leader of ``epoch``; NONE if this node is that leader."""
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > node.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(node.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- requests of other nodes ---------------------------------------------------------------------------------


def on_fetch_request(node: QuorumNode, token: Hashable, request: RaftFetchRequest) -> None:
    error = leader_error(node, request.epoch)
    if error is ErrorCode.NONE and (request.offset < 0 or request.last_epoch < 0):
        error = ErrorCode.INVALID_REQUEST
    if error is not ErrorCode.NONE:
        node.effects.respond(token, node.response(RaftFetchResponse, error))
        return
    leader = node.role
    assert isinstance(leader, Leader)
    position = node.log.check_position(request.offset, request.last_epoch)
    if position is not None:
        _note_contact(node, leader, request.replica)
        node.effects.respond(token, _fetch_response(node, position))
        return
    if request.replica.node_id >= 0:
        key = replica_key(node.voters, *request.replica)
        leader.fetched(key, request.offset, node.log.end_offset, node.now_ms)
        advance_high_watermark(node)
    if node.role is not leader:
        # The offset that this fetch acknowledged committed the removal of the leader itself.
        node.effects.respond(token, node.response(RaftFetchResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    elif _has_new_data(node, request) or request.max_wait_ms <= 0:
        node.effects.respond(token, _fetch_response(node, request.offset))
    else:
        leader.waiting[token] = WaitingFetch(request, node.now_ms + request.max_wait_ms)


def _has_new_data(node: QuorumNode, request: RaftFetchRequest) -> bool:
    return request.offset < node.log.end_offset or request.high_watermark < _reported_high_watermark(node)


def _reported_high_watermark(node: QuorumNode) -> int:
    leader = node.role
    assert isinstance(leader, Leader)
    # A high watermark that this epoch has not confirmed is not reported.
    return node.high_watermark if node.high_watermark > leader.epoch_start_offset else UNKNOWN_HIGH_WATERMARK


def _fetch_response(node: QuorumNode, position: int | EpochEnd | SnapshotId) -> RaftFetchResponse:
    return RaftFetchResponse(
        ErrorCode.NONE,
        node.epoch,
        node.leader_id,
        node.leader_endpoint,
        high_watermark=_reported_high_watermark(node),
        diverging=position if isinstance(position, EpochEnd) else None,
        snapshot=position if isinstance(position, SnapshotId) else None,
        records_from=position if isinstance(position, int) else None,
    )


def on_snapshot_request(node: QuorumNode, token: Hashable, request: SnapshotRequest) -> None:
    error = leader_error(node, request.epoch)
    if error is ErrorCode.NONE:
        leader = node.role
        assert isinstance(leader, Leader)
        _note_contact(node, leader, request.replica)
    node.effects.respond(
        token,
        SnapshotResponse(
            error,
            node.epoch,
            node.leader_id,
            node.leader_endpoint,
            id=request.id,
            position=request.position,
        ),
    )


def _note_contact(node: QuorumNode, leader: Leader, replica: ReplicaKey) -> None:
    """The voter is alive, but where its log matches the leader's is unknown."""
    voter = node.voters.find(*replica)
    if voter is not None:
        progress = leader.progress_of(voter)
        progress.last_fetch_ms = node.now_ms
        progress.gone = False


# -- the high watermark --------------------------------------------------------------------------------------


def advance_high_watermark(node: QuorumNode) -> None:
    leader = node.role
    if not isinstance(leader, Leader):
        return
    reached = leader.majority_offset(node.voters, node.key, node.log.flushed_offset)
    if reached > leader.epoch_start_offset and reached > node.high_watermark:
        node.high_watermark = reached
        on_committed(node, leader)
        complete_waiting_fetches(node)


def complete_waiting_fetches(node: QuorumNode) -> None:
    """Respond to the fetches for which there is new data."""
    leader = node.role
    if isinstance(leader, Leader):
        for token, waiting in list(leader.waiting.items()):
            if _has_new_data(node, waiting.request):
                del leader.waiting[token]
                node.effects.respond(token, _fetch_response(node, waiting.request.offset))


# -- deadlines and own requests ------------------------------------------------------------------------------


def on_deadlines(node: QuorumNode, leader: Leader) -> None:
    now_ms = node.now_ms
    for token, waiting in list(leader.waiting.items()):
        if waiting.until_ms <= now_ms:
            del leader.waiting[token]
            node.effects.respond(token, _fetch_response(node, waiting.request.offset))
    leader.forget_old_observers(node.voters, now_ms)
    if leader.change is not None and leader.change.until_ms <= now_ms:
        on_change_timeout(node, leader)
    resign_if_quorum_lost(node, leader)


def resign_if_quorum_lost(node: QuorumNode, leader: Leader) -> None:
    contact_ms = leader.quorum_contact_ms(node.voters, node.key)
    if contact_ms is not None and contact_ms + node.settings.check_quorum_ms <= node.now_ms:
        node.resign()


def on_peer_gone(node: QuorumNode, leader: Leader, node_id: int) -> None:
    for voter in node.other_voters:
        if voter.node_id == node_id:
            leader.progress_of(voter).gone = True
    for key in [key for key in leader.replicas if key.node_id == node_id]:
        if node.voters.find(*key) is None:
            del leader.replicas[key]
    resign_if_quorum_lost(node, leader)


def send_begin_epoch(node: QuorumNode, leader: Leader) -> None:
    """Send BeginQuorumEpoch to voters that do not fetch; ask a joining voter for its supported versions."""
    for voter in node.other_voters:
        progress = leader.progress_of(voter)
        if _begin_epoch_at_ms(node, leader, voter) <= node.now_ms:
            request = BeginEpochRequest(
                node.epoch,
                node.key.node_id,
                ReplicaKey(voter.node_id, voter.directory_id),
                node.endpoints,
            )
            if node.send(voter.node_id, request):
                progress.begin_epoch_at_ms = node.now_ms + node.settings.begin_epoch_interval_ms
    if leader.change is not None and leader.change.adding is not None:
        node.send(leader.change.adding.node_id, VersionsRequest())


def _begin_epoch_at_ms(node: QuorumNode, leader: Leader, voter: Voter) -> int:
    progress = leader.progress_of(voter)
    return max(progress.begin_epoch_at_ms, progress.last_fetch_ms + node.settings.begin_epoch_interval_ms)


def on_begin_epoch_response(node: QuorumNode, voter_id: int, response: RaftResponse) -> None:
    if isinstance(node.role, Leader) and response.error is not ErrorCode.NONE:
        node.back_off(voter_id)


def deadline_ms(node: QuorumNode, leader: Leader) -> int | None:
    deadlines = [waiting.until_ms for waiting in leader.waiting.values()]
    contact_ms = leader.quorum_contact_ms(node.voters, node.key)
    if contact_ms is not None:
        deadlines.append(contact_ms + node.settings.check_quorum_ms)
    if leader.change is not None:
        deadlines.append(leader.change.until_ms)
    deadlines += [
        max(_begin_epoch_at_ms(node, leader, voter), node.retry_at_ms.get(voter.node_id, 0))
        for voter in node.other_voters
        if voter.node_id not in node.in_flight
    ]
    return min(deadlines, default=None)
