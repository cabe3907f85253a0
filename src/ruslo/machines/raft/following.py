"""A node that is no leader: it looks for the leader, copies its log, and tells it who it is.

The offset of a fetch is also the acknowledgement of everything before it. So a node that may vote fetches
again only when what it got last is synced.

An answer to a fetch carries either records, or the place where the two logs part (then the follower cuts its
own and asks again), or the id of a snapshot (then it downloads that, piece by piece, in place of its log).
"""

from __future__ import annotations

from ruslo.machines.raft.effects import SnapshotPiece
from ruslo.machines.raft.elections import on_leaderless
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.roles import NEVER_MS, Download, Follower, Unattached
from ruslo.machines.raft.rpc import (
    AddVoterAsk,
    Answer,
    Ask,
    FetchAnswer,
    FetchAsk,
    RemoveVoterAsk,
    ReplicaKey,
    SnapshotAnswer,
    SnapshotAsk,
    UpdateVoterAsk,
)
from ruslo.machines.raft.voters import Voter
from ruslo.model.errors import ErrorCode, StorageError

DISCOVERY_INTERVAL_MS = 100
"""Between two questions of who leads to the same node, if it could not tell."""


class LogsDisagreeError(StorageError):
    """The leader says that something is not in the log which this node knows to be committed."""


# -- looking for the leader ----------------------------------------------------------------------------------


def look_for_leader(node: QuorumNode) -> None:
    """A voter asks every other voter, an observer one node after the other."""
    if node.is_voter:
        for voter in node.other_voters:
            node.send(voter.node_id, _fetch(node, max_wait_ms=0))
        return
    voter_ids = [voter_id for voter_id in node.voters.ids if voter_id != node.key.node_id]
    known = [*voter_ids, *node.bootstrap]
    free = [node_id for node_id in known if node.retry_at_ms.get(node_id, 0) <= node.now_ms]
    if free and not node.in_flight:
        node.send(node.random.choice(free), _fetch(node, max_wait_ms=0))


def _fetch(node: QuorumNode, max_wait_ms: int) -> FetchAsk:
    return FetchAsk(
        epoch=node.epoch,
        replica=node.key,
        offset=node.log.end_offset,
        last_epoch=node.log.last_epoch,
        high_watermark=node.high_watermark,
        max_wait_ms=max_wait_ms,
    )


# -- following it --------------------------------------------------------------------------------------------


def follow_leader(node: QuorumNode, role: Follower) -> None:
    if role.leader_gone or role.is_busy:
        return
    if role.download is not None:
        ask: Ask = SnapshotAsk(node.epoch, node.key, role.download.id, role.download.position)
    elif node.settings.may_vote and node.log.flushed_offset < node.log.end_offset:
        return
    elif role.update_at_ms <= node.now_ms and (introduction := _introduction(node)) is not None:
        ask = introduction
    else:
        ask = _fetch(node, node.settings.fetch_max_wait_ms)
    node.send(role.leader_id, ask)


def _introduction(node: QuorumNode) -> UpdateVoterAsk | AddVoterAsk | RemoveVoterAsk | None:
    """What a voter tells every new leader, with static voters too; or how a controller becomes one."""
    me = Voter(*node.key, node.endpoints)
    if not node.settings.may_vote or not node.endpoints:
        return None
    if node.is_voter:
        return UpdateVoterAsk(node.epoch, me)
    if not node.settings.auto_join or node.log.kraft_version == 0:
        return None
    former = next((each for each in node.voters.voters if each.node_id == node.key.node_id), None)
    if former is not None:
        # The same node with the disk it had before; it cannot come back.
        return RemoveVoterAsk(ReplicaKey(former.node_id, former.directory_id))
    return AddVoterAsk(me, node.settings.fetch_timeout_ms, ack_when_committed=False)


def on_introduced(node: QuorumNode, ask: Ask, answer: Answer) -> None:
    role = node.role
    if not isinstance(role, Follower):
        return
    again_ms = node.now_ms + node.settings.fetch_timeout_ms
    done = isinstance(ask, UpdateVoterAsk) and answer.error in (
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_VERSION,
    )
    # Whoever is not a voter yet sees in the log when it has become one, and tries again until then.
    role.update_at_ms = NEVER_MS if done else again_ms


def on_unanswered(node: QuorumNode, node_id: int) -> None:
    """Whoever only looks for a leader can wait a little; everything else is urgent."""
    node.pause(node_id, DISCOVERY_INTERVAL_MS if isinstance(node.role, Unattached) else None)


def on_fetched(node: QuorumNode, from_id: int, ask: FetchAsk, answer: Answer) -> None:
    role = node.role
    assert isinstance(answer, FetchAnswer)
    if isinstance(role, Unattached):
        on_leaderless(node, from_id, answer)
        node.pause(from_id, DISCOVERY_INTERVAL_MS)
        return
    if not isinstance(role, Follower) or role.leader_id != from_id or ask.epoch != node.epoch:
        return
    if answer.error is not ErrorCode.NONE:
        node.pause(from_id)
        if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and answer.epoch == node.epoch:
            on_leader_gone(node, role)  # It has resigned, and its good-bye has not come through.
        return
    _heard(node, role)
    if answer.diverging is not None:
        cut_at = node.log.truncation_for(answer.diverging)
        _check_cut(node, cut_at)
        node.effects.truncate_to = cut_at
        role.is_busy = True
    elif answer.snapshot is not None:
        role.download = Download(answer.snapshot)
    else:
        role.leader_high_watermark = answer.high_watermark
        if len(answer.records):
            node.effects.take = answer.records
            role.is_busy = True
        advance_high_watermark(node)


def on_log_changed(node: QuorumNode) -> None:
    """The driver has done what it was told to do with the log."""
    if isinstance(node.role, Follower):
        node.role.is_busy = False


def _check_cut(node: QuorumNode, cut_at: int) -> None:
    committed = max(node.high_watermark, node.log.snapshot.offset if node.log.snapshot else 0)
    if cut_at < committed:
        raise LogsDisagreeError(
            f"the leader of epoch {node.epoch} has a log that parts from this node's at offset {cut_at}, but "
            f"everything before {committed} is known to be committed. A controller has lost its data, or "
            "another cluster's controller answers; compare cluster.id and directory.id in meta.properties"
        )


def advance_high_watermark(node: QuorumNode) -> None:
    role = node.role
    if isinstance(role, Follower):
        known = min(role.leader_high_watermark, node.log.end_offset)
        node.high_watermark = max(node.high_watermark, known)


def on_snapshot_piece(node: QuorumNode, from_id: int, ask: SnapshotAsk, answer: Answer) -> None:
    role = node.role
    if not isinstance(role, Follower) or role.leader_id != from_id or ask.epoch != node.epoch:
        return
    download = role.download
    if download is None or (ask.id, ask.position) != (download.id, download.position):
        return
    if answer.error is not ErrorCode.NONE:
        # The leader may have a newer one by now; a fetch tells.
        role.download = None
        node.pause(from_id)
        return
    assert isinstance(answer, SnapshotAnswer)
    _heard(node, role)
    download.position += len(answer.piece)
    is_last = download.position >= answer.size
    node.effects.snapshot_piece = SnapshotPiece(download.id, answer.position, answer.piece, is_last)
    if is_last:
        role.download = None
        role.is_busy = True


def _heard(node: QuorumNode, role: Follower) -> None:
    role.has_fetched = True
    role.deadline_ms = node.now_ms + node.settings.fetch_timeout_ms


def on_leader_gone(node: QuorumNode, role: Follower) -> None:
    """The leader has resigned, or its process has ended: there is nothing to wait for."""
    role.leader_gone = True
    if not node.is_voter:
        node.become_unattached(node.epoch)
        return
    rivals = {voter.node_id for voter in node.other_voters if voter.node_id != role.leader_id}
    role.deadline_ms = min(role.deadline_ms, node.now_ms + node.stagger_ms(rivals))
