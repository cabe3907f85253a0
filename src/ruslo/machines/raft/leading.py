"""A node that leads: it lets others copy its log, works out what is committed, and notices when it is alone.

A fetch that finds nothing new waits here until something is appended, the high watermark moves, its time is
up or the leadership ends."""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.raft.leader import Leader, WaitingFetch, replica_key
from ruslo.machines.raft.quorum_node import UNKNOWN_HIGH_WATERMARK, QuorumNode
from ruslo.machines.raft.rpc import (
    Answer,
    BeginEpochAsk,
    EpochEnd,
    FetchAnswer,
    FetchAsk,
    ReplicaKey,
    SnapshotAnswer,
    SnapshotAsk,
    VersionsAsk,
)
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voter_changes import on_committed, on_out_of_time
from ruslo.machines.raft.voters import Voter
from ruslo.model.errors import ErrorCode


def leader_error(node: QuorumNode, epoch: int) -> ErrorCode:
    """Whether an ask for the leader of ``epoch`` has come to the right one."""
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > node.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(node.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- asked by others -----------------------------------------------------------------------------------------


def on_fetch_asked(node: QuorumNode, token: Hashable, ask: FetchAsk) -> None:
    error = leader_error(node, ask.epoch)
    if error is ErrorCode.NONE and (ask.offset < 0 or ask.last_epoch < 0):
        error = ErrorCode.INVALID_REQUEST
    if error is not ErrorCode.NONE:
        node.effects.reply(token, node.refusal(FetchAnswer, error))
        return
    leader = node.role
    assert isinstance(leader, Leader)
    position = node.log.check_position(ask.offset, ask.last_epoch)
    if position is not None:
        _contacted(node, leader, ask.replica)
        node.effects.reply(token, _fetch_answer(node, position))
        return
    if ask.replica.node_id >= 0:
        key = replica_key(node.voters, *ask.replica)
        leader.fetched(key, ask.offset, node.log.end_offset, node.now_ms)
        advance_high_watermark(node)
    if node.role is not leader:
        # What this fetch acknowledged has completed the leader's own removal.
        node.effects.reply(token, node.refusal(FetchAnswer, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    elif _has_news(node, ask) or ask.max_wait_ms <= 0:
        node.effects.reply(token, _fetch_answer(node, ask.offset))
    else:
        leader.waiting[token] = WaitingFetch(ask, node.now_ms + ask.max_wait_ms)


def _has_news(node: QuorumNode, ask: FetchAsk) -> bool:
    return ask.offset < node.log.end_offset or ask.high_watermark < _told_high_watermark(node)


def _told_high_watermark(node: QuorumNode) -> int:
    leader = node.role
    assert isinstance(leader, Leader)
    # Nobody is told one that this epoch has not confirmed.
    return node.high_watermark if node.high_watermark > leader.epoch_start_offset else UNKNOWN_HIGH_WATERMARK


def _fetch_answer(node: QuorumNode, position: int | EpochEnd | SnapshotId) -> FetchAnswer:
    return FetchAnswer(
        ErrorCode.NONE,
        node.epoch,
        node.leader_id,
        node.leader_endpoint(),
        high_watermark=_told_high_watermark(node),
        diverging=position if isinstance(position, EpochEnd) else None,
        snapshot=position if isinstance(position, SnapshotId) else None,
        records_from=position if isinstance(position, int) else None,
    )


def on_snapshot_asked(node: QuorumNode, token: Hashable, ask: SnapshotAsk) -> None:
    error = leader_error(node, ask.epoch)
    if error is ErrorCode.NONE:
        leader = node.role
        assert isinstance(leader, Leader)
        _contacted(node, leader, ask.replica)
    node.effects.reply(
        token,
        SnapshotAnswer(
            error, node.epoch, node.leader_id, node.leader_endpoint(), id=ask.id, position=ask.position
        ),
    )


def _contacted(node: QuorumNode, leader: Leader, replica: ReplicaKey) -> None:
    """It is there, but how far its log is one with the leader's is not known."""
    voter = node.voters.find(*replica)
    if voter is not None:
        progress = leader.progress_of(voter)
        progress.last_fetch_ms = node.now_ms
        progress.gone = False


# -- what is committed ---------------------------------------------------------------------------------------


def advance_high_watermark(node: QuorumNode) -> None:
    leader = node.role
    if not isinstance(leader, Leader):
        return
    reached = leader.majority_offset(node.voters, node.key, node.log.flushed_offset)
    if reached > leader.epoch_start_offset and reached > node.high_watermark:
        node.high_watermark = reached
        on_committed(node, leader)
        answer_news(node)


def answer_news(node: QuorumNode) -> None:
    """Release the fetches that waited for what has happened."""
    leader = node.role
    if isinstance(leader, Leader):
        for token, waiting in list(leader.waiting.items()):
            if _has_news(node, waiting.ask):
                del leader.waiting[token]
                node.effects.reply(token, _fetch_answer(node, waiting.ask.offset))


# -- time and asks of its own --------------------------------------------------------------------------------


def on_time(node: QuorumNode, leader: Leader) -> None:
    now_ms = node.now_ms
    for token, waiting in list(leader.waiting.items()):
        if waiting.until_ms <= now_ms:
            del leader.waiting[token]
            node.effects.reply(token, _fetch_answer(node, waiting.ask.offset))
    leader.forget_old_observers(node.voters, now_ms)
    if leader.change is not None and leader.change.until_ms <= now_ms:
        on_out_of_time(node, leader)
    resign_if_alone(node, leader)


def resign_if_alone(node: QuorumNode, leader: Leader) -> None:
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
    resign_if_alone(node, leader)


def announce(node: QuorumNode, leader: Leader) -> None:
    """Tell the voters that do not fetch who leads, and ask a voter to be which kraft.version it supports."""
    for voter in node.other_voters:
        progress = leader.progress_of(voter)
        if _announce_at_ms(node, leader, voter) <= node.now_ms:
            ask = BeginEpochAsk(
                node.epoch,
                node.key.node_id,
                ReplicaKey(voter.node_id, voter.directory_id),
                node.endpoints,
            )
            if node.send(voter.node_id, ask):
                progress.begin_epoch_at_ms = node.now_ms + node.settings.begin_epoch_interval_ms
    if leader.change is not None and leader.change.adding is not None:
        node.send(leader.change.adding.node_id, VersionsAsk())


def _announce_at_ms(node: QuorumNode, leader: Leader, voter: Voter) -> int:
    progress = leader.progress_of(voter)
    return max(progress.begin_epoch_at_ms, progress.last_fetch_ms + node.settings.begin_epoch_interval_ms)


def on_announced(node: QuorumNode, voter_id: int, answer: Answer) -> None:
    if isinstance(node.role, Leader) and answer.error is not ErrorCode.NONE:
        node.pause(voter_id)


def deadline_ms(node: QuorumNode, leader: Leader) -> int | None:
    deadlines = [waiting.until_ms for waiting in leader.waiting.values()]
    contact_ms = leader.quorum_contact_ms(node.voters, node.key)
    if contact_ms is not None:
        deadlines.append(contact_ms + node.settings.check_quorum_ms)
    if leader.change is not None:
        deadlines.append(leader.change.until_ms)
    deadlines += [
        max(_announce_at_ms(node, leader, voter), node.retry_at_ms.get(voter.node_id, 0))
        for voter in node.other_voters
        if voter.node_id not in node.in_flight
    ]
    return min(deadlines, default=None)
