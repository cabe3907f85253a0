"""The machine under late, duplicated and reordered requests; ``txn_world`` names the invariants."""

from __future__ import annotations

import pytest

from tests.support.txns.txn_world import World

STEPS = 6_000


@pytest.mark.parametrize("seed", range(30))
def test_every_world_becomes_idle(seed: int) -> None:
    world = World(seed)
    world.run(STEPS)
    assert world.decided >= world.completed > 0


def test_the_worlds_reach_the_rare_cases() -> None:
    worlds = [World(seed) for seed in range(100, 105)]
    for world in worlds:
        world.run(STEPS)
    assert sum(world.completed for world in worlds) > 200
    assert sum(world.rotated for world in worlds) > 0, "epochs run out"
    assert all(world.bench.coordinator_epoch > 8 for world in worlds), "coordinators move"
