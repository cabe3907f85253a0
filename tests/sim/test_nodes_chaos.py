"""Three hundred clusters under faults; ``RUSLO_NODES_SEEDS=20000`` for more, ``=17-17`` for one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SEEDS_PER_TEST = 100


def _seeds() -> range:
    first, _, last = os.environ.get("RUSLO_NODES_SEEDS", "0-299").rpartition("-")
    return range(int(first or 0), int(last) + 1)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run in another process, because the simulation forks."""
    command = [sys.executable, "-m", "ruslo.testing.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", _seeds()[::SEEDS_PER_TEST])
def test_clusters_keep_the_invariants(first: int) -> None:
    last = min(first + SEEDS_PER_TEST, _seeds().stop) - 1
    ended = simulate("--seeds", f"{first}-{last}")
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}\nshow one run: --seed N"


def test_a_seed_gives_the_same_run_every_time() -> None:
    first, second = simulate("--seed", "11"), simulate("--seed", "11")
    assert first.returncode == 0, first.stdout
    assert first.stdout == second.stdout
    assert "fingerprint" in first.stdout
