"""Who votes, changed while the quorum runs (KIP-853).

A new Voters record is in force from the moment it is appended, and committed by the new majority. That is
safe because of three rules, checked before every change:

1. One voter at a time, so that any old and any new majority have a voter in common.
2. The change before it is committed.
3. The leader has committed a record of its own epoch. Without that a leader could go on from a change of an
   earlier epoch that another leader has already undone.

A leader that removes itself goes on leading, without counting itself, until that is committed; then it
resigns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ruslo.machines.raft.leader import Leader, VoterChange, replica_key
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.roles import NEVER_MS
from ruslo.machines.raft.rpc import (
    AddVoterAsk,
    Answer,
    RemoveVoterAsk,
    UpdateVoterAsk,
    VersionsAnswer,
    VoterChangeAnswer,
)
from ruslo.machines.raft.settings import OBSERVER_SESSION_MS
from ruslo.machines.raft.voters import KRAFT_VERSION_MAX, Voter, VoterSet
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord


def on_add_asked(node: QuorumNode, token: Hashable, ask: AddVoterAsk) -> None:
    leader = _ready_leader(node, token)
    if leader is None:
        return
    voter = ask.voter
    if not voter.endpoints:
        _reply(node, token, ErrorCode.INVALID_REQUEST, f"voter {voter} gives no address")
    elif voter.node_id in node.voters.ids:
        _reply(node, token, ErrorCode.DUPLICATE_VOTER, f"node {voter.node_id} is a voter already")
    else:
        answer_to = token
        if not ask.ack_when_committed:
            answer_to = None
            _reply(node, token, ErrorCode.NONE)
        leader.change = VoterChange(
            answer_to,
            node.voters.added(voter),
            adding=voter,
            until_ms=node.now_ms + max(ask.timeout_ms, node.settings.fetch_timeout_ms),
        )


def on_versions_told(node: QuorumNode, node_id: int, answer: Answer) -> None:
    """The voter to be has said which kraft.version it supports; it must also have caught up by now."""
    leader = node.role
    if not isinstance(leader, Leader) or leader.change is None or leader.change.adding is None:
        return
    change, voter = leader.change, leader.change.adding
    if voter.node_id != node_id:
        return  # It was to be added before, and said so too late.
    problem: tuple[ErrorCode, str] | None = None
    lowest, highest = answer.kraft_versions if isinstance(answer, VersionsAnswer) else (0, -1)
    if answer.error is not ErrorCode.NONE or not isinstance(answer, VersionsAnswer):
        problem = ErrorCode.REQUEST_TIMED_OUT, f"voter {voter} could not be asked what it supports"
    elif not lowest <= node.log.kraft_version <= highest:
        problem = (
            ErrorCode.INVALID_REQUEST,
            f"voter {voter} supports kraft.version {lowest} to {highest}, not {node.log.kraft_version}",
        )
    elif not _has_caught_up(node, leader, voter):
        problem = (
            ErrorCode.REQUEST_TIMED_OUT,
            f"voter {voter} has not caught up with the metadata log; let it run as an observer first",
        )
    if problem is not None:
        leader.change = None
        if change.token is not None:
            _reply(node, change.token, *problem)
        return
    change.adding = None
    change.voters = node.voters.added(replace(voter, kraft_version_range=(lowest, highest)))
    _append(node, change)


def on_remove_asked(node: QuorumNode, token: Hashable, ask: RemoveVoterAsk) -> None:
    leader = _ready_leader(node, token)
    if leader is None:
        return
    voter = node.voters.find(*ask.voter)
    if voter is None:
        _reply(node, token, ErrorCode.VOTER_NOT_FOUND, f"{Voter(*ask.voter)} is no voter")
    elif len(node.voters.voters) == 1:
        _reply(node, token, ErrorCode.INVALID_REQUEST, "the last voter cannot be removed")
    else:
        leader.change = VoterChange(token, node.voters.removed(voter))
        _append(node, leader.change)


def on_update_asked(node: QuorumNode, token: Hashable, ask: UpdateVoterAsk) -> None:
    leader = node.role
    if ask.epoch < node.epoch:
        _reply(node, token, ErrorCode.FENCED_LEADER_EPOCH)
    elif ask.epoch > node.epoch:
        _reply(node, token, ErrorCode.UNKNOWN_LEADER_EPOCH)
    elif isinstance(leader, Leader) and node.log.kraft_version == 0:
        # Remembered for the day when kraft.version is raised.
        leader.static_voters[ask.voter.node_id] = ask.voter
        _reply(node, token, ErrorCode.NONE)
    elif (ready := _ready_leader(node, token)) is not None:
        voter = node.voters.find(ask.voter.node_id, ask.voter.directory_id)
        if voter is None:
            _reply(node, token, ErrorCode.VOTER_NOT_FOUND, f"{ask.voter} is no voter")
            return
        if voter != ask.voter:
            ready.change = VoterChange(None, node.voters.updated(ask.voter))
            _append(node, ready.change)
        _reply(node, token, ErrorCode.NONE)


def on_upgrade_asked(node: QuorumNode, token: Hashable) -> None:
    """kraft.version 0 to 1: what ``controller.quorum.voters`` said is written into the log, with the
    directory ids that the voters have told."""
    leader = node.role
    if isinstance(leader, Leader) and node.log.kraft_version > 0:
        _reply(node, token, ErrorCode.NONE)
        return
    if not isinstance(leader, Leader) or _is_unsettled(node, leader):
        _reply(node, token, ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum yet")
        return
    told = dict(leader.static_voters)
    told[node.key.node_id] = Voter(*node.key, node.endpoints)
    missing = [voter_id for voter_id in node.voters.ids if voter_id not in told]
    too_old = [voter for voter in told.values() if voter.kraft_version_range[1] < KRAFT_VERSION_MAX]
    if missing or too_old:
        who = ", ".join(str(voter) for voter in (*missing, *too_old))
        _reply(
            node,
            token,
            ErrorCode.INVALID_UPDATE_VERSION,
            f"voters that have not said, within the last seconds, that they support it: {who}",
        )
        return
    change = leader.change = VoterChange(
        token, VoterSet(tuple(told[voter_id] for voter_id in node.voters.ids))
    )
    node.effects.records.append(KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION_MAX))
    _append(node, change)


# -- how a change ends ---------------------------------------------------------------------------------------


def on_committed(node: QuorumNode, leader: Leader) -> None:
    """The high watermark has moved."""
    change = leader.change
    if change is not None and change.offset is not None and change.offset < node.high_watermark:
        leader.change = None
        if change.token is not None:
            _reply(node, change.token, ErrorCode.NONE)
    if not node.is_voter and node.log.voters_offset < node.high_watermark:
        node.resign()


def on_out_of_time(node: QuorumNode, leader: Leader) -> None:
    change = leader.change
    assert change is not None
    if change.token is not None:
        _reply(node, change.token, ErrorCode.REQUEST_TIMED_OUT, "the change was not committed in time")
    change.token = None
    change.until_ms = NEVER_MS
    if change.offset is None:
        leader.change = None


def _append(node: QuorumNode, change: VoterChange) -> None:
    change.offset = node.log.end_offset + len(node.effects.records)
    node.effects.records.append(change.voters.to_record())


def _ready_leader(node: QuorumNode, token: Hashable) -> Leader | None:
    """The leader's part, if a change may begin; otherwise the reason is answered."""
    leader = node.role
    if not isinstance(leader, Leader):
        _reply(node, token, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif node.log.kraft_version == 0:
        reason = "the voters stand in controller.quorum.voters (kraft.version 0) and cannot be changed"
        _reply(node, token, ErrorCode.UNSUPPORTED_VERSION, reason)
    elif _is_unsettled(node, leader):
        _reply(node, token, ErrorCode.REQUEST_TIMED_OUT, "the change of voters before it is not committed")
    else:
        return leader
    return None


def _is_unsettled(node: QuorumNode, leader: Leader) -> bool:
    in_own_epoch = node.high_watermark > leader.epoch_start_offset
    return leader.change is not None or not in_own_epoch or node.log.voters_offset >= node.high_watermark


def _has_caught_up(node: QuorumNode, leader: Leader, voter: Voter) -> bool:
    key = replica_key(node.voters, voter.node_id, voter.directory_id)
    progress = leader.replicas.get(key)
    return progress is not None and progress.last_caught_up_ms > node.now_ms - OBSERVER_SESSION_MS


def _reply(node: QuorumNode, token: Hashable, error: ErrorCode, message: str | None = None) -> None:
    node.effects.reply(
        token, VoterChangeAnswer(error, node.epoch, node.leader_id, node.leader_endpoint(), message)
    )
