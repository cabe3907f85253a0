"""Whole clusters on virtual time: ``python -m ruslo.testing.simulation --seeds 0-99``.

A seed that fails is shown in full with ``--seed N``: what was done to the cluster, what its nodes logged, and
which invariant did not hold.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from typing import NoReturn

from ruslo.testing.simulation.nodes.chaos import NodesChaos
from ruslo.testing.simulation.nodes.runs import HASH_SEED, leave_at_once, run_here, run_seeds


def main() -> NoReturn:
    parser = argparse.ArgumentParser(
        prog="python -m ruslo.testing.simulation",
        description="Run whole clusters under simulated faults; exit code 1 if an invariant did not hold.",
        epilog="example: python -m ruslo.testing.simulation --seeds 0-999",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seeds", help="FIRST-LAST: run these, one line for each that fails")
    which.add_argument("--seed", type=int, help="run this one, and tell everything that happens")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        # Python reads it at its start only.
        environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
        os.execve(
            sys.executable, [sys.executable, "-m", "ruslo.testing.simulation", *sys.argv[1:]], environment
        )
    if options.seed is not None:
        _tell(options.seed)
    first, _, last = options.seeds.rpartition("-")
    _run_all(range(int(first or last), int(last) + 1))


def _run_all(seeds: range) -> NoReturn:
    began_s = time.perf_counter()
    failed = 0
    for outcome in run_seeds(seeds):
        if outcome.broken is not None:
            failed += 1
            print(f"seed {outcome.seed}: {outcome.broken}", flush=True)
    took_s = time.perf_counter() - began_s
    cpu_s = sum(os.times()[:4])
    print(f"{len(seeds)} runs in {took_s:.0f} s ({cpu_s:.0f} s of CPU), {failed} failed", flush=True)
    leave_at_once(1 if failed else 0)


def _tell(seed: int) -> NoReturn:
    chaos = NodesChaos()
    chaos.boot()
    logging.basicConfig(level=logging.INFO, handlers=[_Story(chaos)])
    outcome = run_here(chaos, seed)
    print(outcome.report or f"seed {seed}: every invariant held")
    print(f"fingerprint {outcome.fingerprint:016x}", flush=True)
    leave_at_once(0 if outcome.broken is None else 1)


class _Story(logging.Handler):
    """What nodes log becomes a part of the run's story, with their name and the virtual time."""

    def __init__(self, chaos: NodesChaos) -> None:
        super().__init__()
        self._chaos = chaos
        chaos.on_tell = lambda line: print(line, flush=True)

    def emit(self, record: logging.LogRecord) -> None:
        self._chaos.tell(f"{self._chaos.speaker()}: {record.getMessage()}")


if __name__ == "__main__":
    main()
