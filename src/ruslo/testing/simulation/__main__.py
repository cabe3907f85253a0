"""Whole clusters on virtual time: ``python -m ruslo.testing.simulation --seeds 0-99``.

``--seed N`` shows a run in full: the faults, the log lines of the nodes, and the broken invariant.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from typing import NoReturn

from ruslo.testing.simulation.nodes.chaos import NodesChaos
from ruslo.testing.simulation.nodes.runs import HASH_SEED, exit_immediately, run_here, run_seeds


def main() -> NoReturn:
    parser = argparse.ArgumentParser(
        prog="python -m ruslo.testing.simulation",
        description="Run whole clusters under simulated faults; exit code 1 if an invariant is broken.",
        epilog="example: python -m ruslo.testing.simulation --seeds 0-999",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seeds", help="FIRST-LAST: run these seeds; print one line per failed seed")
    which.add_argument("--seed", type=int, help="run this seed and print everything that happens")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        # Python reads the variable only at its start.
        environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
        os.execve(
            sys.executable, [sys.executable, "-m", "ruslo.testing.simulation", *sys.argv[1:]], environment
        )
    if options.seed is not None:
        _run_verbosely(options.seed)
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
    exit_immediately(1 if failed else 0)


def _run_verbosely(seed: int) -> NoReturn:
    chaos = NodesChaos(on_note=lambda line: print(line, flush=True))
    chaos.boot()
    logging.basicConfig(level=logging.INFO, handlers=[_TraceHandler(chaos)])
    outcome = run_here(chaos, seed)
    print(outcome.report or f"seed {seed}: all invariants hold")
    print(f"fingerprint {outcome.fingerprint:016x}", flush=True)
    exit_immediately(0 if outcome.broken is None else 1)


class _TraceHandler(logging.Handler):
    """Adds the log lines of nodes to the trace, with the node and the virtual time."""

    def __init__(self, chaos: NodesChaos) -> None:
        super().__init__()
        self._chaos = chaos

    def emit(self, record: logging.LogRecord) -> None:
        self._chaos.note(f"{self._chaos.current_process()}: {record.getMessage()}")


if __name__ == "__main__":
    main()
