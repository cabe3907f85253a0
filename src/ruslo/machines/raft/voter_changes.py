"""Changes of the voters while the quorum runs (KIP-853).

A new Voters record is in force as soon as it is appended, and the new majority commits it. Three rules,
checked before every change, make that safe:

1. One voter at a time, so any old and any new majority share a voter.
2. The previous change is committed.
3. The leader has committed a record of its own epoch. Otherwise it could continue a change of an earlier
   epoch that another leader has already undone.

A leader that removes itself keeps leading, without counting itself, until the removal is committed; then it
resigns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ruslo.machines.raft.leader import Leader, VoterChange, replica_key
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.roles import NEVER_MS
from ruslo.machines.raft.rpc import (
    AddVoterRequest,
    RaftResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsResponse,
    VoterChangeResponse,
)
from ruslo.machines.raft.settings import OBSERVER_SESSION_MS
from ruslo.machines.raft.voters import KRAFT_VERSION_MAX, Voter, VoterSet
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord


def on_add_request(node: QuorumNode, token: Hashable, request: AddVoterRequest) -> None:
    leader = _ready_leader(node, token)
    if leader is None:
        return
    voter = request.voter
    if not voter.endpoints:
        _reply(node, token, ErrorCode.INVALID_REQUEST, f"Voter {voter} has no endpoint")
    elif voter.node_id in node.voters.ids:
        _reply(node, token, ErrorCode.DUPLICATE_VOTER, f"Node {voter.node_id} is already a voter")
    else:
        pending_token = token
        if not request.ack_when_committed:
            pending_token = None
            _reply(node, token, ErrorCode.NONE)
        leader.change = VoterChange(
            pending_token,
            node.voters.added(voter),
            adding=voter,
            until_ms=node.now_ms + max(request.timeout_ms, node.settings.fetch_timeout_ms),
        )


def on_versions_received(node: QuorumNode, node_id: int, response: RaftResponse) -> None:
    """The joining voter has reported its supported kraft.version range; it must also have caught up by
    now."""
    leader = node.role
    if not isinstance(leader, Leader) or leader.change is None or leader.change.adding is None:
        return
    change, voter = leader.change, leader.change.adding
    if voter.node_id != node_id:
        return  # A late response of an earlier joining voter.
    problem: tuple[ErrorCode, str] | None = None
    lowest, highest = response.kraft_versions if isinstance(response, VersionsResponse) else (0, -1)
    if response.error is not ErrorCode.NONE or not isinstance(response, VersionsResponse):
        problem = ErrorCode.REQUEST_TIMED_OUT, f"Voter {voter} did not report its supported versions"
    elif not lowest <= node.log.kraft_version <= highest:
        problem = (
            ErrorCode.INVALID_REQUEST,
            f"Voter {voter} supports kraft.version {lowest} to {highest}, not {node.log.kraft_version}",
        )
    elif not _has_caught_up(node, leader, voter):
        problem = (
            ErrorCode.REQUEST_TIMED_OUT,
            f"Voter {voter} has not caught up with the metadata log. Run it as an observer first",
        )
    if problem is not None:
        leader.change = None
        if change.token is not None:
            _reply(node, change.token, *problem)
        return
    change.adding = None
    change.voters = node.voters.added(replace(voter, kraft_version_range=(lowest, highest)))
    _append(node, change)


def on_remove_request(node: QuorumNode, token: Hashable, request: RemoveVoterRequest) -> None:
    leader = _ready_leader(node, token)
    if leader is None:
        return
    voter = node.voters.find(*request.voter)
    if voter is None:
        _reply(node, token, ErrorCode.VOTER_NOT_FOUND, f"{Voter(*request.voter)} is not a voter")
    elif len(node.voters.voters) == 1:
        _reply(node, token, ErrorCode.INVALID_REQUEST, "The last voter cannot be removed")
    else:
        leader.change = VoterChange(token, node.voters.removed(voter))
        _append(node, leader.change)


def on_update_request(node: QuorumNode, token: Hashable, request: UpdateVoterRequest) -> None:
    leader = node.role
    if request.epoch < node.epoch:
        _reply(node, token, ErrorCode.FENCED_LEADER_EPOCH)
    elif request.epoch > node.epoch:
        _reply(node, token, ErrorCode.UNKNOWN_LEADER_EPOCH)
    elif isinstance(leader, Leader) and node.log.kraft_version == 0:
        # Kept for the upgrade of kraft.version.
        leader.static_voters[request.voter.node_id] = request.voter
        _reply(node, token, ErrorCode.NONE)
    elif (ready := _ready_leader(node, token)) is not None:
        voter = node.voters.find(request.voter.node_id, request.voter.directory_id)
        if voter is None:
            _reply(node, token, ErrorCode.VOTER_NOT_FOUND, f"{request.voter} is not a voter")
            return
        if voter != request.voter:
            ready.change = VoterChange(None, node.voters.updated(request.voter))
            _append(node, ready.change)
        _reply(node, token, ErrorCode.NONE)


def on_upgrade_request(node: QuorumNode, token: Hashable) -> None:
    """kraft.version 0 to 1: append the voters of ``controller.quorum.voters`` with the directory ids that
    they reported."""
    leader = node.role
    if isinstance(leader, Leader) and node.log.kraft_version > 0:
        _reply(node, token, ErrorCode.NONE)
        return
    if not isinstance(leader, Leader) or _has_pending_change(node, leader):
        _reply(node, token, ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum yet")
        return
    reported = dict(leader.static_voters)
    reported[node.key.node_id] = Voter(*node.key, node.endpoints)
    missing = [voter_id for voter_id in node.voters.ids if voter_id not in reported]
    too_old = [voter for voter in reported.values() if voter.kraft_version_range[1] < KRAFT_VERSION_MAX]
    if missing or too_old:
        voters = ", ".join(str(voter) for voter in (*missing, *too_old))
        _reply(
            node,
            token,
            ErrorCode.INVALID_UPDATE_VERSION,
            f"These voters have not reported that they support kraft.version {KRAFT_VERSION_MAX}: {voters}",
        )
        return
    change = leader.change = VoterChange(
        token, VoterSet(tuple(reported[voter_id] for voter_id in node.voters.ids))
    )
    node.effects.records.append(KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION_MAX))
    _append(node, change)


# -- completing a change -------------------------------------------------------------------------------------


def on_committed(node: QuorumNode, leader: Leader) -> None:
    """The high watermark has advanced."""
    change = leader.change
    if change is not None and change.offset is not None and change.offset < node.high_watermark:
        leader.change = None
        if change.token is not None:
            _reply(node, change.token, ErrorCode.NONE)
    if not node.is_voter and node.log.voters_offset < node.high_watermark:
        node.resign()


def on_change_timeout(node: QuorumNode, leader: Leader) -> None:
    change = leader.change
    assert change is not None
    if change.token is not None:
        _reply(node, change.token, ErrorCode.REQUEST_TIMED_OUT, "The voter change was not committed in time")
    change.token = None
    change.until_ms = NEVER_MS
    if change.offset is None:
        leader.change = None


def _append(node: QuorumNode, change: VoterChange) -> None:
    change.offset = node.log.end_offset + len(node.effects.records)
    node.effects.records.append(change.voters.to_record())


def _ready_leader(node: QuorumNode, token: Hashable) -> Leader | None:
    """The leader's data if a change may begin; otherwise responds with the error."""
    leader = node.role
    if not isinstance(leader, Leader):
        _reply(node, token, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif node.log.kraft_version == 0:
        reason = "The voters are static (controller.quorum.voters, kraft.version 0) and cannot be changed"
        _reply(node, token, ErrorCode.UNSUPPORTED_VERSION, reason)
    elif _has_pending_change(node, leader):
        _reply(node, token, ErrorCode.REQUEST_TIMED_OUT, "The previous voter change is not committed yet")
    else:
        return leader
    return None


def _has_pending_change(node: QuorumNode, leader: Leader) -> bool:
    in_own_epoch = node.high_watermark > leader.epoch_start_offset
    return leader.change is not None or not in_own_epoch or node.log.voters_offset >= node.high_watermark


def _has_caught_up(node: QuorumNode, leader: Leader, voter: Voter) -> bool:
    key = replica_key(node.voters, voter.node_id, voter.directory_id)
    progress = leader.replicas.get(key)
    return progress is not None and progress.last_caught_up_ms > node.now_ms - OBSERVER_SESSION_MS


def _reply(node: QuorumNode, token: Hashable, error: ErrorCode, message: str | None = None) -> None:
    node.effects.respond(
        token, VoterChangeResponse(error, node.epoch, node.leader_id, node.leader_endpoint, message)
    )
