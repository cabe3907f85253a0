"""The simulation must find mutants: bugs that are injected into the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ruslo.machines.groups.classic import sync as classic_sync
from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.consumer import fencing
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.reconcile import _Step
from ruslo.machines.groups.group import Committer
from ruslo.machines.groups.offsets.store import OffsetStore
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.model.errors import ErrorCode
from ruslo.testing.simulation.groups.invariants import (
    ALL_OWNED,
    ALL_RESPONDED,
    EPOCHS_INCREASE,
    LOG_IS_STATE,
    OFFSETS_KEPT,
    ONE_OWNER,
)
from ruslo.testing.simulation.raft.invariants import InvariantBrokenError
from tests.support.groups.group_chaos import GroupChaos

SEEDS = range(4)

Mutant = Callable[[pytest.MonkeyPatch], None]


def revocation_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are assigned before their owner has revoked them."""
    monkeypatch.setattr(_Step, "owns_any", lambda self, partitions: False)


def owned_partitions_are_reassigned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "is_held", lambda self, topic_id, partition: False)
    monkeypatch.setattr(ConsumerGroup, "_hold", lambda self, partitions, epoch: None)


def old_generations_may_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(self: ClassicGroup, committer: Committer) -> ErrorCode:
        return ErrorCode.NONE

    monkeypatch.setattr(ClassicGroup, "check_offset_commit", check)


def generations_decrease(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ClassicGroup.next_generation

    def next_generation(self: ClassicGroup, wall_ms: int) -> None:
        real(self, wall_ms)
        if self.generation > 3:
            self.generation -= 2

    monkeypatch.setattr(ClassicGroup, "next_generation", next_generation)


def some_commits_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    real = OffsetStore.put

    def put(self: OffsetStore, group_id: str, topic: str, partition: int, offset: Any) -> None:
        if offset.offset % 17:
            real(self, group_id, topic, partition, offset)

    monkeypatch.setattr(OffsetStore, "put", put)


def followers_get_no_sync_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's SyncGroup completes only its own request."""
    real = classic_sync._assign

    def assign(*args: Any) -> GroupOutcome:
        decision = real(*args)
        own = decision.replies[-1:]
        decision.replies = own
        return decision

    monkeypatch.setattr(classic_sync, "_assign", assign)


def fenced_members_stay_in_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fenced members are removed, but their partitions are not assigned again."""
    real = fencing.remove

    def remove(*args: Any) -> GroupOutcome:
        decision = real(*args)
        decision.records = [each for each in decision.records if each.key.API_KEY != 3]
        return decision

    monkeypatch.setattr(fencing, "remove", remove)


@pytest.mark.parametrize(
    ("mutant", "broken"),
    [
        (revocation_is_not_awaited, {ONE_OWNER, OFFSETS_KEPT}),
        (owned_partitions_are_reassigned, {ONE_OWNER, OFFSETS_KEPT}),
        (old_generations_may_commit, {OFFSETS_KEPT}),
        (generations_decrease, {EPOCHS_INCREASE, ONE_OWNER}),
        (some_commits_are_lost, {OFFSETS_KEPT, LOG_IS_STATE}),
        (followers_get_no_sync_response, {ALL_RESPONDED, ALL_OWNED}),
        (fenced_members_stay_in_the_target, {ALL_OWNED}),
    ],
)
def test_mutant_is_found(monkeypatch: pytest.MonkeyPatch, mutant: Mutant, broken: set[str]) -> None:
    mutant(monkeypatch)
    found = next(error for error in map(_broken, SEEDS) if error is not None)
    assert found.name in broken
    assert "replay: RUSLO_CHAOS_SEEDS=" in found.__notes__[0]


def _broken(seed: int) -> InvariantBrokenError | None:
    try:
        GroupChaos(seed).run()
    except InvariantBrokenError as error:
        return error
    return None
