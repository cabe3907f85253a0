"""Many runs from one start: the cluster is booted once, and every seed runs in a fork of that process.

A run is the boot, which never changes, and what its seed makes of it; so the same seed gives the same run
whether it is one of a thousand or the only one.
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
"""The order of sets of names hangs on it, and so would the run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    broken: str | None
    """The name of the invariant that did not hold."""
    report: str
    fingerprint: int
    """Of all that happened: the same for every run of the seed."""


def run_seeds(
    seeds: Iterable[int],
    *,
    actions: Mapping[str, int] | None = None,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Outcome]:
    """``prepare``: called after the boot, to put a fault into the product."""
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        raise RuntimeError(f"a run can be repeated only with PYTHONHASHSEED={HASH_SEED} in the environment")
    logging.disable(logging.CRITICAL)
    chaos = NodesChaos(actions=actions)
    chaos.boot()
    if prepare is not None:
        prepare()
    # Runs are short, and what is shared with the forks must not be written to.
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
            leave_at_once(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        return Outcome(seed, "the run comes to an end", "the process of the run died", 0)
    outcome = pickle.loads(data)
    assert isinstance(outcome, Outcome)
    return outcome


def run_here(chaos: NodesChaos, seed: int) -> Outcome:
    """In this process, which is of no use for anything else afterwards."""
    try:
        chaos.run(seed)
    except InvariantBrokenError as error:
        return Outcome(seed, error.name, _told(error), chaos.fingerprint())
    except Exception as error:
        return Outcome(seed, "no error nobody expects", _told(error), chaos.fingerprint())
    return Outcome(seed, None, "", chaos.fingerprint())


def leave_at_once(exit_code: int) -> NoReturn:
    """What is left of the nodes must not come to an end of its own, as ``finally`` would have it."""
    os._exit(exit_code)


def _told(error: Exception) -> str:
    return "".join(traceback.format_exception(error))
