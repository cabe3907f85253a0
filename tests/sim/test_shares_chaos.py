"""A share group on whole nodes under faults; ``RUSLO_SHARES_SEEDS=1000`` for more, ``=17-17`` for one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ruslo.testing.simulation.nodes.runs import HASH_SEED
from tests.support.share.share_mutants import MUTANTS

SEEDS = os.environ.get("RUSLO_SHARES_SEEDS", "40")


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run in another process: it patches the product."""
    return subprocess.run(
        [sys.executable, "-m", "tests.support.share.share_chaos", *arguments],
        env={**os.environ, "PYTHONHASHSEED": HASH_SEED},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(0)
def test_share_groups_keep_the_invariants() -> None:
    ended = simulate(SEEDS if "-" in SEEDS else f"1-{SEEDS}")
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
    assert " deliveries, " in ended.stdout


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_found(name: str) -> None:
    ended = simulate("1-30", name)
    assert ended.returncode == 1, f"not found: {ended.stdout}{ended.stderr}"
    assert MUTANTS[name].breaks in ended.stdout, ended.stdout
