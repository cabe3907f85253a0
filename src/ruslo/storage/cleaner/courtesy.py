"""Where the cleaner stands when several want the same core: behind those who answer clients.

It begins with a low priority. Once it is seen that there is processor time to spare it takes only that:
whatever else wants to run then goes first and at once, where with mere niceness it may have to wait for the
end of a turn of some milliseconds. Its I/O is treated likewise. If others leave it nothing for a while it
goes back, for a log must not grow for ever because a machine is busy.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic_ns

_NICENESS = 5
_SCHEDSTAT = Path("/proc/self/schedstat")
_LOOK_NS = 250_000_000
"""How long it runs, or waits to run, between two looks at how it fares."""
_TO_SPARE, _STARVING = 0.5, 0.1
"""Shares of the time it wanted to run in which it did."""


class Starving(Exception):
    """Only a new process may have a higher priority again."""


class Courtesy:
    def __init__(self, *, may_idle: bool) -> None:
        os.nice(_NICENESS)
        self._may_idle = may_idle and hasattr(os, "SCHED_IDLE")
        self._idle = False
        self._ran_ns, self._waited_ns = _times_ns() if self._may_idle else (0, 0)
        self._next_look_ns = monotonic_ns() + _LOOK_NS

    def look(self) -> None:
        """Now and then, in the middle of work; raises Starving."""
        if not self._may_idle:
            return
        now_ns = monotonic_ns()
        # It cannot have run and waited for longer than there was time, so that asking would be for nothing.
        if now_ns < self._next_look_ns:
            return
        ran_ns, waited_ns = _times_ns()
        ran, waited = ran_ns - self._ran_ns, waited_ns - self._waited_ns
        if ran + waited < _LOOK_NS:
            self._next_look_ns = now_ns + _LOOK_NS - (ran + waited)
            return
        self._next_look_ns = now_ns + _LOOK_NS
        self._ran_ns, self._waited_ns = ran_ns, waited_ns
        share = ran / (ran + waited)
        if not self._idle and share > _TO_SPARE:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            self._idle = True
        elif self._idle and share < _STARVING:
            self._may_idle = False
            try:
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            except PermissionError as error:
                raise Starving from error


def _times_ns() -> tuple[int, int]:
    """For how long this process has run so far, and for how long it could have but others did."""
    try:
        ran, waited, _ = _SCHEDSTAT.read_text().split()
    except FileNotFoundError:
        # A system that does not tell: then it never seems to have time to spare.
        return 0, 0
    return int(ran), int(waited)
