"""Stops a command that must leave its group first: other consumers then get its records at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

_REPEATED_S = 1.0
"""``timeout`` and shells may send a signal twice."""


@contextmanager
def leaving_on_signals() -> Iterator[None]:
    """SIGINT and SIGTERM raise SystemExit once; another one a second later ends the process at once."""
    begun_s: float | None = None

    def stop(number: int, frame: object) -> None:
        nonlocal begun_s
        if begun_s is None:
            begun_s = time.monotonic()
            raise SystemExit(128 + number)
        if time.monotonic() - begun_s > _REPEATED_S:
            os._exit(128 + number)

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
