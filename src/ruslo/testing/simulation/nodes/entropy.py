"""All chance and all time of a run from one source: code that asks the system for either is given the run's.

Ids, jitter and the slices of long work are where a broker uses chance and the real clock. Whatever it is, and
whoever adds more of it, a run that is repeated must get the same.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from ruslo.testing.simulation.clock import SimClock


class Entropy:
    """``seed`` may be set anew while it is in use: all chance from then on depends on that alone."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock

    def seed(self, value: int) -> None:
        self._clock.random.seed(value)
        random.seed(value)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        clock = self._clock
        seed_generator = random.Random.seed

        def seed(generator: random.Random, a: object = None, version: int = 2) -> None:
            seed_generator(generator, clock.random.getrandbits(64) if a is None else a, version)  # type: ignore[arg-type]

        with (
            patch.object(os, "urandom", lambda size: clock.random.randbytes(size)),
            patch.object(random.Random, "seed", seed),
            patch.object(time, "time", lambda: clock.now_ms() / 1000),
            patch.object(time, "time_ns", lambda: clock.now_ms() * 1_000_000),
            patch.object(time, "monotonic", lambda: clock.monotonic_ms() / 1000),
            patch.object(time, "monotonic_ns", lambda: clock.monotonic_ms() * 1_000_000),
        ):
            yield
