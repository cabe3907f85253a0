"""Many runs from one boot: the cluster is booted once, and every seed runs in a fork of that process.

A run is the boot, which never changes, and what its seed determines. So a seed gives the same run whether it
is one of a thousand or the only one.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from ruslo.testing.simulation.nodes.chaos import NodesChaos
from ruslo.testing.simulation.raft.invariants import InvariantBrokenError

HASH_SEED = "0"
"""The iteration order of sets of strings depends on it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    broken: str | None
    """The name of the broken invariant."""
    report: str
    fingerprint: int
    """A hash of the run: the same for every run of the seed."""


def run_seeds(
    seeds: Iterable[int],
    *,
    actions: Mapping[str, int] | None = None,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Outcome]:
    """``prepare``: called after the boot, to inject a bug into the product."""
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        raise RuntimeError(f"Runs are repeatable only with PYTHONHASHSEED={HASH_SEED} in the environment")
    logging.disable(logging.CRITICAL)
    chaos = NodesChaos(actions=actions)
    chaos.boot()
    if prepare is not None:
        prepare()
    # Runs are short, and memory shared with the forks must not be written to.
    gc.collect()
    gc.freeze()
    gc.disable()
    for seed in seeds:
        yield _run_in_fork(chaos, seed)


def _run_in_fork(chaos: NodesChaos, seed: int) -> Outcome:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(pickle.dumps(run_here(chaos, seed)))
        finally:
            exit_immediately(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        return Outcome(seed, "the run ends", "the process of the run died", 0)
    outcome = pickle.loads(data)
    assert isinstance(outcome, Outcome)
    return outcome


def run_here(chaos: NodesChaos, seed: int) -> Outcome:
    """Run in this process, which cannot be used for anything else afterwards."""
    try:
        chaos.run(seed)
    except InvariantBrokenError as error:
        return Outcome(seed, error.name, _format_error(error), chaos.fingerprint())
    except Exception as error:
        return Outcome(seed, "there are no unexpected errors", _format_error(error), chaos.fingerprint())
    return Outcome(seed, None, "", chaos.fingerprint())


def exit_immediately(exit_code: int) -> NoReturn:
    """Skip ``finally`` blocks of the nodes, which must not end cleanly."""
    os._exit(exit_code)


def _format_error(error: Exception) -> str:
    return "".join(traceback.format_exception(error))
