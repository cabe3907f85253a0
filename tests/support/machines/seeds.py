"""Which seeds a simulation runs with."""

from __future__ import annotations

import os


def chaos_seeds(last: int) -> range:
    """From 0 to ``last``; ``RUSLO_CHAOS_SEEDS=5000`` for more, ``=17-17`` for one."""
    first, _, until = os.environ.get("RUSLO_CHAOS_SEEDS", f"{last}").rpartition("-")
    return range(int(first or 0), int(until) + 1)
