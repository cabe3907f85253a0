"""The simulation must find mutants: classic bugs that are injected into the nodes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ruslo.testing.simulation.nodes.runs import HASH_SEED
from tests.support.machines.mutants import MUTANTS

SEEDS = 150


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_found(name: str) -> None:
    first = MUTANTS[name].first_seed
    seeds = f"{first}-{first + SEEDS - 1}"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.machines.mutants", name, seeds],
        env={**os.environ, "PYTHONHASHSEED": HASH_SEED},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"not found in the seeds {seeds}: {ended.stdout}{ended.stderr}"
