"""The simulation must find mutants: classic bugs that are injected into the raft machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ruslo.machines.raft import elections, following, leading, voter_changes
from ruslo.machines.raft.effects import TruncateLog
from ruslo.machines.raft.leader import Leader
from ruslo.machines.raft.log_view import LogView
from ruslo.machines.raft.quorum_node import QuorumNode
from ruslo.machines.raft.roles import Follower
from ruslo.machines.raft.rpc import EpochEnd, RaftVoteRequest, ReplicaKey
from ruslo.machines.raft.voters import Endpoint, VoterSet
from ruslo.testing.simulation.raft.chaos import ACTIONS, VOTER_ACTIONS, RaftChaos
from ruslo.testing.simulation.raft.invariants import (
    COMMITTED_KEPT,
    LOGS_AGREE,
    ONE_LEADER,
    VOTE_ONCE,
    VOTERS_ONE_BY_ONE,
    InvariantBrokenError,
)
from ruslo.testing.simulation.raft.quorum import SimQuorum

SEEDS = range(300)

Mutant = Callable[[pytest.MonkeyPatch], None]


def votes_are_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimQuorum.__init__

    def init(self: SimQuorum, *args: int, **kwargs: int) -> None:
        real(self, *args, **kwargs)  # type: ignore[arg-type]
        self.sync_votes = False

    monkeypatch.setattr(SimQuorum, "__init__", init)


def old_epochs_are_committed_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignores Raft §5.4.2: a majority is enough, whichever leader wrote the record."""

    def advance(node: QuorumNode) -> None:
        if isinstance(node.role, Leader):
            node.high_watermark = max(
                node.high_watermark,
                node.role.majority_offset(node.voters, node.key, node.log.flushed_offset),
            )
            leading.complete_waiting_fetches(node)

    monkeypatch.setattr(leading, "advance_high_watermark", advance)


def followers_truncate_to_their_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka before KIP-101: truncates acknowledged records that it does not know to be committed."""
    real = QuorumNode.become_follower

    def become_follower(self: QuorumNode, epoch: int, leader_id: int, endpoint: Endpoint | None) -> None:
        real(self, epoch, leader_id, endpoint)
        if isinstance(self.role, Follower):
            self.effects.log_effect = TruncateLog(max(self.high_watermark, self.log.start_offset))
            self.role.log_change_pending = True

    monkeypatch.setattr(QuorumNode, "become_follower", become_follower)


def followers_truncate_below_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncation_for(self: LogView, leaders: EpochEnd) -> int:
        return max(self.start_offset, leaders.end_offset - 2)

    monkeypatch.setattr(LogView, "truncation_for", truncation_for)
    monkeypatch.setattr(following, "_check_truncation", lambda node, offset: None)


def every_candidate_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    real = elections.on_vote_request

    def on_vote_request(node: QuorumNode, token: object, request: RaftVoteRequest) -> None:
        overstated = RaftVoteRequest(
            request.epoch, request.candidate, request.voter, 1 << 30, request.end_offset, request.pre_vote
        )
        real(node, token, overstated)

    monkeypatch.setattr(elections, "on_vote_request", on_vote_request)


def a_minority_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    def majority_offset(self: Leader, voters: VoterSet, own: ReplicaKey, own_offset: int) -> int:
        return own_offset

    monkeypatch.setattr(Leader, "majority_offset", majority_offset)


def followers_acknowledge_before_they_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    real = LogView.appended

    def appended(self: LogView, end_offset: int, epoch: int) -> None:
        real(self, end_offset, epoch)
        self.flushed_offset = end_offset

    monkeypatch.setattr(LogView, "appended", appended)


def voters_change_before_the_last_change_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voter_changes, "_has_pending_change", lambda node, leader: False)


def leaders_do_not_check_the_followers_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_position(self: LogView, offset: int, last_epoch: int) -> object:
        if offset < self.start_offset and self.snapshot is not None:
            return self.snapshot
        return EpochEnd(self.last_epoch, self.end_offset) if offset > self.end_offset else None

    monkeypatch.setattr(LogView, "check_position", check_position)


LEADER_KILLS = {"kill_leaders": 3, "append": 1}
CRASHES = {"kill_many": 4, "append": 3, "slow_disk": 1, "kill_leader": 1}
ELECTIONS = {"kill_after_vote": 3, "append": 1, "isolate": 1, "heal": 1}
ALL_KINDS = {**ACTIONS, **VOTER_ACTIONS}
VOTER_CHANGES = {"add_voter": 3, "remove_voter": 6, "kill_leaders": 1, "isolate": 3, "heal": 2, "append": 1}


@pytest.mark.parametrize(
    ("mutant", "actions", "names"),
    [
        (votes_are_not_synced, ELECTIONS, {VOTE_ONCE, ONE_LEADER}),
        (old_epochs_are_committed_by_counting, LEADER_KILLS, {COMMITTED_KEPT, LOGS_AGREE}),
        (followers_truncate_to_their_high_watermark, ALL_KINDS, {COMMITTED_KEPT, LOGS_AGREE}),
        (followers_truncate_below_the_high_watermark, LEADER_KILLS, {COMMITTED_KEPT, LOGS_AGREE}),
        (every_candidate_is_up_to_date, ALL_KINDS, {COMMITTED_KEPT, LOGS_AGREE}),
        (a_minority_commits, ALL_KINDS, {COMMITTED_KEPT, LOGS_AGREE}),
        (followers_acknowledge_before_they_sync, CRASHES, {COMMITTED_KEPT, LOGS_AGREE}),
        (
            voters_change_before_the_last_change_is_committed,
            VOTER_CHANGES,
            {ONE_LEADER, COMMITTED_KEPT, LOGS_AGREE, VOTERS_ONE_BY_ONE},
        ),
        (leaders_do_not_check_the_followers_epoch, ALL_KINDS, {COMMITTED_KEPT, LOGS_AGREE}),
    ],
)
def test_mutant_is_found(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant, actions: Mapping[str, int], names: set[str]
) -> None:
    mutant(monkeypatch)
    for seed in SEEDS:
        chaos = RaftChaos(seed, voters=5, dynamic="add_voter" in actions, actions=actions)
        try:
            chaos.run()
        except InvariantBrokenError as error:
            if error.name in names:
                return
    pytest.fail(f"not found in {len(SEEDS)} seeds")
