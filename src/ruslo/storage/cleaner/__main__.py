"""``python -m ruslo.storage.cleaner PARENT_PID low|idle``: compacts logs for a broker.

Every line of standard input is a task, every line of standard output a report. The process ends when its
input ends, and is killed with its broker, because two cleaners must never write to one log. With ``idle`` it
may use the idle scheduling class.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys

import msgspec

from ruslo.storage.cleaner.cpu_priority import CpuPriority
from ruslo.storage.cleaner.round import run_round
from ruslo.storage.cleaner.task import CleanTask, Report
from ruslo.storage.local_disk import LocalDisk

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 8 << 20


def main(parent_pid: int, *, may_idle: bool) -> int:
    _exit_with(parent_pid)
    priority = CpuPriority(may_idle=may_idle)
    # There are millions of keys and no cycles.
    gc.disable()
    _keep_freed_memory()
    tasks = msgspec.json.Decoder(CleanTask)
    for line in sys.stdin.buffer:
        task = tasks.decode(line)
        run_round(LocalDisk(task.directory), task, _send, priority.adjust)
    return 0


def _send(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _exit_with(parent_pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Ctrl-C in a terminal reaches the whole process group; the broker decides when the cleaner stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != parent_pid:
        raise SystemExit("the broker has exited")


def _keep_freed_memory() -> None:
    """Have the C library reuse the memory of windows and batches, which come and go by the megabyte.

    By default it returns them to the system, which zeroes every page again. Large tables of keys are still
    returned at once.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * _KEPT_BYTES)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), may_idle=sys.argv[2] == "idle"))
