"""Many quorums under faults; ``RUSLO_RAFT_SEEDS=5000`` for more, ``=17-17`` for one."""

from __future__ import annotations

import os

import pytest

from ruslo.testing.simulation.raft.chaos import RaftChaos

SEEDS_PER_TEST = 10


def _seeds() -> range:
    first, _, last = os.environ.get("RUSLO_RAFT_SEEDS", "0-299").rpartition("-")
    return range(int(first or 0), int(last) + 1)


@pytest.mark.parametrize("first", _seeds()[::SEEDS_PER_TEST])
def test_quorums_keep_the_invariants(first: int) -> None:
    for seed in range(first, min(first + SEEDS_PER_TEST, _seeds().stop)):
        RaftChaos(seed).run()


def test_a_seed_gives_the_same_run_every_time() -> None:
    first, second = RaftChaos(11), RaftChaos(11)
    first.run()
    second.run()
    assert first.quorum.invariants.committed == second.quorum.invariants.committed
    assert first.quorum.clock.monotonic_ms() == second.quorum.clock.monotonic_ms()
