"""The machine under late, duplicated and reordered requests; ``txn_simulation`` names the invariants."""

from __future__ import annotations

import pytest

from tests.support.txns.txn_simulation import TxnSimulation

STEPS = 6_000


@pytest.mark.parametrize("seed", range(30))
def test_every_run_becomes_idle(seed: int) -> None:
    run = TxnSimulation(seed)
    run.run(STEPS)
    assert run.decided >= run.completed > 0


def test_runs_reach_the_rare_cases() -> None:
    runs = [TxnSimulation(seed) for seed in range(100, 105)]
    for run in runs:
        run.run(STEPS)
    assert sum(run.completed for run in runs) > 200
    assert sum(run.rotated for run in runs) > 0, "some epochs are exhausted"
    assert all(run.bench.coordinator_epoch > 8 for run in runs), "coordinators move"
