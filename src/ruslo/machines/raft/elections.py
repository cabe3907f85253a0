"""How a leader is found: timeouts, pre-votes, votes, and the news of who has won or gone.

========== ===================================== ==========================================================
in state   stands for election when              grants a vote (pre-vote)
========== ===================================== ==========================================================
Unattached its election timeout has passed, or   to the first who asks and is up to date (to all up to date)
           most voters know no leader either
Prospective                                      as Unattached
Candidate  a while after it lost                 never: it voted for itself (to all up to date)
Follower   its leader was silent for the fetch   never: the epoch has a leader (to all up to date, but only
           timeout, said good-bye, or is gone    if it has never fetched from its leader, or knows it gone)
Leader     –                                     never (never)
Resigned   –                                     never (to all up to date)
========== ===================================== ==========================================================

Up to date: its log ends in a later epoch, or in the same epoch and not before the voter's. An ask from a
later epoch makes anybody Unattached in that epoch first."""

from __future__ import annotations

from collections.abc import Hashable

from ruslo.machines.raft.leader import Leader
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from ruslo.machines.raft.rpc import (
    Answer,
    BeginEpochAsk,
    EndEpochAsk,
    EpochAnswer,
    FetchAnswer,
    ReplicaKey,
    VoteAnswer,
    VoteAsk,
)
from ruslo.machines.raft.settings import BACKOFF_BASE_MS
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID

# -- asked by others -----------------------------------------------------------------------------------------


def on_vote_asked(node: QuorumNode, token: Hashable, ask: VoteAsk) -> None:
    error, granted = ErrorCode.NONE, False
    if not node.is_addressed(ask.voter):
        error = ErrorCode.INVALID_VOTER_KEY
    elif ask.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif ask.candidate.node_id < 0:
        error = ErrorCode.INVALID_REQUEST
    else:
        if ask.epoch > node.epoch:
            node.become_unattached(ask.epoch)
        up_to_date = (ask.last_epoch, ask.end_offset) >= (node.log.last_epoch, node.log.end_offset)
        granted = up_to_date and (_misses_leader(node) if ask.pre_vote else _may_vote(node, ask.candidate))
        if granted and not ask.pre_vote:
            node.vote_for(ask.candidate)
            if isinstance(node.role, Unattached):
                # Give the one that was voted for the time to win.
                node.role.deadline_ms = node.now_ms + node.election_timeout_ms()
    node.effects.reply(token, VoteAnswer(error, node.epoch, node.leader_id, node.leader_endpoint(), granted))


def _misses_leader(node: QuorumNode) -> bool:
    match node.role:
        case Leader():
            return False
        case Follower() as follower:
            return follower.leader_gone or not follower.has_fetched
    return True


def _may_vote(node: QuorumNode, candidate: ReplicaKey) -> bool:
    quorum = node.quorum
    if quorum.leader_id != NO_NODE:
        return False
    if quorum.voted_id == NO_NODE:
        return True
    # Under kraft.version 0 the directory of the one voted for is not remembered.
    same_directory = quorum.voted_directory_id in (ZERO_UUID, candidate.directory_id)
    return quorum.voted_id == candidate.node_id and same_directory


def on_epoch_begun(node: QuorumNode, token: Hashable, ask: BeginEpochAsk) -> None:
    error = ErrorCode.NONE
    if not node.is_addressed(ask.voter):
        error = ErrorCode.INVALID_VOTER_KEY
    elif ask.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif ask.leader_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif not _follow(node, ask.epoch, ask.leader_id, ask):
        error = ErrorCode.UNKNOWN_LEADER_EPOCH
    node.effects.reply(token, node.refusal(EpochAnswer, error))


def on_epoch_ended(node: QuorumNode, token: Hashable, ask: EndEpochAsk) -> None:
    error = ErrorCode.NONE
    if ask.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif ask.leader_id < 0:
        error = ErrorCode.INVALID_REQUEST
    elif _follow(node, ask.epoch, ask.leader_id, None):
        assert isinstance(node.role, Follower)
        node.role.leader_gone = True
        if node.is_voter:
            in_turn_ms = node.now_ms + _succession_ms(node, ask.preferred)
            node.role.deadline_ms = min(node.role.deadline_ms, in_turn_ms)
        else:
            node.become_unattached(node.epoch)
    node.effects.reply(token, node.refusal(EpochAnswer, error))


def _follow(node: QuorumNode, epoch: int, leader_id: int, begun: BeginEpochAsk | None) -> bool:
    """Be a follower of this leader, whom the node may have heard of before; False if that cannot be."""
    role = node.role
    if leader_id == node.key.node_id or (epoch == node.epoch and isinstance(role, Leader)):
        return False
    if epoch == node.epoch and node.quorum.leader_id not in (NO_NODE, leader_id):
        return False
    following = isinstance(role, Follower) and epoch == node.epoch
    if begun is None and isinstance(role, (Prospective, Candidate)) and epoch == node.epoch:
        return False  # Its successor is being elected already.
    if not following or (begun is not None and isinstance(role, Follower) and role.leader_gone):
        endpoint = begun.endpoints[0] if begun is not None and begun.endpoints else None
        node.become_follower(epoch, leader_id, endpoint)
    return True


def _succession_ms(node: QuorumNode, preferred: tuple[ReplicaKey, ...]) -> int:
    """The first in line begins at once, each of the others waits twice as long as the one before it."""
    if not preferred:
        return node.stagger_ms({voter.node_id for voter in node.other_voters})
    place = next((at for at, key in enumerate(preferred) if node.is_addressed(key)), 0)
    if place == 0:
        return 0
    slot_ms = max(node.settings.election_backoff_max_ms >> (len(preferred) - 1), BACKOFF_BASE_MS)
    return min(slot_ms << (place - 1), node.settings.election_backoff_max_ms)


# -- answers -------------------------------------------------------------------------------------------------


def on_vote_answered(node: QuorumNode, voter_id: int, ask: VoteAsk, answer: Answer) -> None:
    role = node.role
    right_round = isinstance(role, Prospective) if ask.pre_vote else isinstance(role, Candidate)
    if ask.epoch != node.epoch or not right_round:
        return
    assert isinstance(role, (Prospective, Candidate))
    if answer.error is ErrorCode.UNSUPPORTED_VERSION and ask.pre_vote:
        # A voter from before KIP-996 does not know the question; then votes decide, as they used to.
        node.become_candidate()
        return
    if answer.error is not ErrorCode.NONE or not isinstance(answer, VoteAnswer):
        node.pause(voter_id)
        return
    (role.tally.granted if answer.granted else role.tally.refused).add(voter_id)
    if role.tally.is_won:
        if isinstance(role, Prospective):
            node.become_candidate()
        else:
            node.become_leader()
    elif role.tally.is_lost:
        _lose(node, role)


def on_epoch_end_answered(node: QuorumNode, voter_id: int, answer: Answer) -> None:
    if isinstance(node.role, Resigned):
        if answer.error in (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH):
            node.role.untold.discard(voter_id)
        else:
            node.pause(voter_id)


def on_leaderless(node: QuorumNode, voter_id: int, answer: FetchAnswer) -> None:
    """Somebody was asked who leads, and does not know either."""
    role = node.role
    if not isinstance(role, Unattached) or not node.is_voter or answer.leader_id != NO_NODE:
        return
    if voter_id not in node.voters.ids or voter_id in role.leaderless:
        return
    role.leaderless.add(voter_id)
    if len(role.leaderless) + 1 == len(node.voters.voters) // 2 + 1:
        # If there were a leader, one of so many would know it: no need to wait any longer.
        role.deadline_ms = min(role.deadline_ms, node.now_ms + node.stagger_ms(role.leaderless))


def _lose(node: QuorumNode, role: Prospective | Candidate) -> None:
    if isinstance(role, Candidate):
        if not role.lost:
            role.lost = True
            role.deadline_ms = node.now_ms + node.election_backoff_ms(role.elections_lost + 1)
    elif role.leader_id != NO_NODE:
        node.become_follower(node.epoch, role.leader_id, None)
    else:
        node.become_unattached(node.epoch)


# -- time and asks of its own --------------------------------------------------------------------------------


def on_time(node: QuorumNode) -> None:
    """The deadline of the state the node is in has come."""
    match node.role:
        case Resigned():
            # An observer that ran ahead of the quorum's epoch could not follow anybody.
            node.become_unattached(node.epoch + (1 if node.may_stand else 0))
        case Prospective() as role:
            _lose(node, role)
        case Unattached() as role if not node.may_stand:
            role.deadline_ms = node.now_ms + node.election_timeout_ms()
        case Unattached() | Candidate() | Follower() if node.may_stand:
            node.become_prospective()
        case Candidate() | Follower():
            node.become_unattached(node.epoch)


def ask_for_votes(node: QuorumNode, role: Prospective | Candidate) -> None:
    if isinstance(role, Candidate) and role.lost:
        return
    outstanding = role.tally.outstanding()
    for voter in role.tally.voters.voters:
        if voter.node_id in outstanding:
            ask = VoteAsk(
                epoch=node.epoch,
                candidate=node.key,
                voter=ReplicaKey(voter.node_id, voter.directory_id),
                last_epoch=node.log.last_epoch,
                end_offset=node.log.end_offset,
                pre_vote=isinstance(role, Prospective),
            )
            node.send(voter.node_id, ask)


def say_goodbye(node: QuorumNode, role: Resigned) -> None:
    for voter_id in sorted(role.untold):
        node.send(voter_id, EndEpochAsk(node.epoch, node.key.node_id, role.preferred))
