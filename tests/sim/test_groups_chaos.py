"""Many simulated hours of group coordinators; ``RUSLO_CHAOS_SEEDS=5000`` for more, ``=17-17`` for one."""

from __future__ import annotations

import pytest

from tests.support.groups.group_chaos import GroupChaos
from tests.support.machines.seeds import chaos_seeds


@pytest.mark.parametrize("seed", chaos_seeds(19))
def test_groups_keep_the_invariants(seed: int) -> None:
    GroupChaos(seed).run()
