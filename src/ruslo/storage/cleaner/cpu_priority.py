"""The CPU priority of the cleaner process: below the broker, which has clients waiting.

* It starts with a low priority (nice).
* While there is CPU time to spare it uses the idle scheduling class: any other process preempts it at once,
  while a nice process may finish its time slice of some milliseconds first. Its I/O is treated alike.
* If it gets too little CPU time it returns to the low priority, because a log must not grow without limit
  on a busy machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic_ns

_NICENESS = 5
_SCHEDSTAT = Path("/proc/self/schedstat")
_CHECK_INTERVAL_NS = 250_000_000
"""Time that the process runs, or waits to run, between two checks."""
_SPARE_SHARE, _STARVING_SHARE = 0.5, 0.1
"""Shares of the time in which the process was runnable that it did run."""


class Starving(Exception):
    """The process gets no CPU time in the idle class; only a new process may have a higher priority."""


class CpuPriority:
    def __init__(self, *, may_idle: bool) -> None:
        os.nice(_NICENESS)
        self._may_idle = may_idle and hasattr(os, "SCHED_IDLE")
        self._idle = False
        self._ran_ns, self._waited_ns = _times_ns() if self._may_idle else (0, 0)
        self._next_check_ns = monotonic_ns() + _CHECK_INTERVAL_NS

    def adjust(self) -> None:
        """Change the scheduling class if the CPU load asks for it; called often. Raises Starving."""
        if not self._may_idle:
            return
        now_ns = monotonic_ns()
        # Less wall-clock time than the interval has passed, so there is no need to read the times.
        if now_ns < self._next_check_ns:
            return
        ran_ns, waited_ns = _times_ns()
        ran, waited = ran_ns - self._ran_ns, waited_ns - self._waited_ns
        if ran + waited < _CHECK_INTERVAL_NS:
            self._next_check_ns = now_ns + _CHECK_INTERVAL_NS - (ran + waited)
            return
        self._next_check_ns = now_ns + _CHECK_INTERVAL_NS
        self._ran_ns, self._waited_ns = ran_ns, waited_ns
        share = ran / (ran + waited)
        if not self._idle and share > _SPARE_SHARE:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            self._idle = True
        elif self._idle and share < _STARVING_SHARE:
            self._may_idle = False
            try:
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            except PermissionError as error:
                raise Starving from error


def _times_ns() -> tuple[int, int]:
    """How long this process has run, and how long it was runnable but waited for a CPU."""
    try:
        ran, waited, _ = _SCHEDSTAT.read_text().split()
    except FileNotFoundError:
        # Without these times the process never uses the idle class.
        return 0, 0
    return int(ran), int(waited)
