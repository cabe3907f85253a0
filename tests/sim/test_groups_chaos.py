"""Many hours of many coordinators; ``RUSLO_CHAOS_SEEDS=5000`` for more of them, ``=17-17`` for one."""

from __future__ import annotations

import os

import pytest

from tests.support.group_chaos import Chaos


def _seeds() -> range:
    first, _, last = os.environ.get("RUSLO_CHAOS_SEEDS", "0-39").rpartition("-")
    return range(int(first or 0), int(last) + 1)


@pytest.mark.parametrize("seed", _seeds())
def test_an_hour_of_chaos(seed: int) -> None:
    Chaos(seed).run()
