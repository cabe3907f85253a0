"""``python -m ruslo.storage.cleaner PARENT_PID low|idle``: rounds of compaction for a broker.

A task a line on standard input, reports a line each on standard output. It ends with its input; if its broker
is killed it dies with it, for two cleaners must never write to one log. ``idle``: it may step back until it
runs on idle processors only.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys

import msgspec

from ruslo.storage.cleaner.courtesy import Courtesy
from ruslo.storage.cleaner.round import run_round
from ruslo.storage.cleaner.task import CleanTask, Report
from ruslo.storage.disk import LocalDisk

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 8 << 20


def main(parent_pid: int, *, may_idle: bool) -> int:
    _die_with(parent_pid)
    courtesy = Courtesy(may_idle=may_idle)
    # Millions of keys and no cycle among them.
    gc.disable()
    _keep_freed_memory()
    tasks = msgspec.json.Decoder(CleanTask)
    for line in sys.stdin.buffer:
        task = tasks.decode(line)
        run_round(LocalDisk(task.directory), task, _tell, courtesy.look)
    return 0


def _tell(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _die_with(parent_pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Ctrl-C in a terminal reaches the whole group; it is the broker that decides when work ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != parent_pid:
        raise SystemExit("the broker is gone")


def _keep_freed_memory() -> None:
    """Windows and batches come and go by the megabyte: the next one shall have the memory of the last.

    Otherwise the C library hands each back to the system, which gives it out again page by page, zeroed. The
    large tables of keys still go back at once.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * _KEPT_BYTES)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), may_idle=sys.argv[2] == "idle"))
