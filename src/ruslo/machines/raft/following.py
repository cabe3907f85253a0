"""A node that does not lead: it finds the leader, replicates its log and reports its own endpoints.

The offset of a fetch acknowledges everything before it. So a node that may vote fetches again only when the
previous records are synced.

A fetch response carries records, or the point where the two logs diverge (the follower truncates and fetches
again), or a snapshot id (the follower downloads that snapshot in chunks and replaces its log with it).
"""

from __future__ import annotations

from ruslo.machines.raft.effects import AppendFetchedBatches, TruncateLog, WriteSnapshotChunk
from ruslo.machines.raft.elections import on_no_leader_known
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.roles import NEVER_MS, Download, Follower, Unattached
from ruslo.machines.raft.rpc import (
    AddVoterRequest,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    RemoveVoterRequest,
    ReplicaKey,
    SnapshotRequest,
    SnapshotResponse,
    UpdateVoterRequest,
)
from ruslo.machines.raft.voters import Voter
from ruslo.model.errors import ErrorCode, StorageError

DISCOVERY_INTERVAL_MS = 100
"""Interval between two fetches to the same node while no leader is known."""


class DivergedCommittedLogError(StorageError):
    """The leader's log lacks records that this node knows to be committed."""


# -- finding the leader --------------------------------------------------------------------------------------


def find_leader(node: QuorumNode) -> None:
    """A voter fetches from every other voter, an observer from one known node after another."""
    if node.is_voter:
        for voter in node.other_voters:
            node.send(voter.node_id, _fetch(node, max_wait_ms=0))
        return
    voter_ids = [voter_id for voter_id in node.voters.ids if voter_id != node.key.node_id]
    known = [*voter_ids, *node.bootstrap]
    free = [node_id for node_id in known if node.retry_at_ms.get(node_id, 0) <= node.now_ms]
    if free and not node.in_flight:
        node.send(node.random.choice(free), _fetch(node, max_wait_ms=0))


def _fetch(node: QuorumNode, max_wait_ms: int) -> RaftFetchRequest:
    return RaftFetchRequest(
        epoch=node.epoch,
        replica=node.key,
        offset=node.log.end_offset,
        last_epoch=node.log.last_epoch,
        high_watermark=node.high_watermark,
        max_wait_ms=max_wait_ms,
    )


# -- following the leader ------------------------------------------------------------------------------------


def follow_leader(node: QuorumNode, role: Follower) -> None:
    if role.leader_gone or role.log_change_pending:
        return
    if role.download is not None:
        request: RaftRequest = SnapshotRequest(node.epoch, node.key, role.download.id, role.download.position)
    elif node.settings.may_vote and node.log.flushed_offset < node.log.end_offset:
        return
    elif role.update_at_ms <= node.now_ms and (membership := _membership_request(node)) is not None:
        request = membership
    else:
        request = _fetch(node, node.settings.fetch_max_wait_ms)
    node.send(role.leader_id, request)


def _membership_request(node: QuorumNode) -> UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest | None:
    """UpdateVoter, which every voter sends to a new leader, or the request of a controller to be added."""
    own = Voter(*node.key, node.endpoints)
    if not node.settings.may_vote or not node.endpoints:
        return None
    if node.is_voter:
        return UpdateVoterRequest(node.epoch, own)
    if not node.settings.auto_join or node.log.kraft_version == 0:
        return None
    former = next((each for each in node.voters.voters if each.node_id == node.key.node_id), None)
    if former is not None:
        # The voter is this node with its former disk, which cannot come back.
        return RemoveVoterRequest(ReplicaKey(former.node_id, former.directory_id))
    return AddVoterRequest(own, node.settings.fetch_timeout_ms, ack_when_committed=False)


def on_voter_request_answered(node: QuorumNode, request: RaftRequest, response: RaftResponse) -> None:
    role = node.role
    if not isinstance(role, Follower):
        return
    retry_at_ms = node.now_ms + node.settings.fetch_timeout_ms
    done = isinstance(request, UpdateVoterRequest) and response.error in (
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_VERSION,
    )
    # A node that is not a voter yet sees in the log when it has been added, and asks again until then.
    role.update_at_ms = NEVER_MS if done else retry_at_ms


def on_request_failed(node: QuorumNode, node_id: int) -> None:
    """Discovery can wait a little; every other request is urgent."""
    node.back_off(node_id, DISCOVERY_INTERVAL_MS if isinstance(node.role, Unattached) else None)


def on_fetch_response(
    node: QuorumNode, from_id: int, request: RaftFetchRequest, response: RaftResponse
) -> None:
    role = node.role
    assert isinstance(response, RaftFetchResponse)
    if isinstance(role, Unattached):
        on_no_leader_known(node, from_id, response)
        node.back_off(from_id, DISCOVERY_INTERVAL_MS)
        return
    if not isinstance(role, Follower) or role.leader_id != from_id or request.epoch != node.epoch:
        return
    if response.error is not ErrorCode.NONE:
        node.back_off(from_id)
        if response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and response.epoch == node.epoch:
            on_leader_gone(node, role)  # It has resigned, but its EndQuorumEpoch was lost.
        return
    _note_fetch_response(node, role)
    if response.diverging is not None:
        truncate_to = node.log.truncation_for(response.diverging)
        _check_truncation(node, truncate_to)
        node.effects.log_effect = TruncateLog(truncate_to)
        role.log_change_pending = True
    elif response.snapshot is not None:
        role.download = Download(response.snapshot)
    else:
        role.leader_high_watermark = response.high_watermark
        if len(response.records):
            node.effects.log_effect = AppendFetchedBatches(response.records)
            role.log_change_pending = True
        advance_high_watermark(node)


def on_log_changed(node: QuorumNode) -> None:
    """The driver has completed a change of the log."""
    if isinstance(node.role, Follower):
        node.role.log_change_pending = False


def _check_truncation(node: QuorumNode, truncate_to: int) -> None:
    committed = max(node.high_watermark, node.log.snapshot.offset if node.log.snapshot else 0)
    if truncate_to < committed:
        raise DivergedCommittedLogError(
            f"The log of the leader of epoch {node.epoch} diverges from this node's at offset {truncate_to}, "
            "but "
            f"everything below {committed} is committed. A controller has lost its data, or a controller of "
            "another cluster responded. Compare cluster.id and directory.id in meta.properties"
        )


def advance_high_watermark(node: QuorumNode) -> None:
    role = node.role
    if isinstance(role, Follower):
        known = min(role.leader_high_watermark, node.log.end_offset)
        node.high_watermark = max(node.high_watermark, known)


def on_snapshot_chunk(
    node: QuorumNode, from_id: int, request: SnapshotRequest, response: RaftResponse
) -> None:
    role = node.role
    if not isinstance(role, Follower) or role.leader_id != from_id or request.epoch != node.epoch:
        return
    download = role.download
    if download is None or (request.id, request.position) != (download.id, download.position):
        return
    if response.error is not ErrorCode.NONE:
        # The leader may have a newer snapshot by now; a fetch will tell.
        role.download = None
        node.back_off(from_id)
        return
    assert isinstance(response, SnapshotResponse)
    _note_fetch_response(node, role)
    download.position += len(response.chunk)
    is_last = download.position >= response.size
    node.effects.log_effect = WriteSnapshotChunk(download.id, response.position, response.chunk, is_last)
    if is_last:
        role.download = None
        role.log_change_pending = True


def _note_fetch_response(node: QuorumNode, role: Follower) -> None:
    role.has_fetched = True
    role.deadline_ms = node.now_ms + node.settings.fetch_timeout_ms


def on_leader_gone(node: QuorumNode, role: Follower) -> None:
    """The leader has resigned, or its process has ended: start an election without waiting for the
    timeout."""
    role.leader_gone = True
    if not node.is_voter:
        node.become_unattached(node.epoch)
        return
    rivals = {voter.node_id for voter in node.other_voters if voter.node_id != role.leader_id}
    role.deadline_ms = min(role.deadline_ms, node.now_ms + node.stagger_ms(rivals))
