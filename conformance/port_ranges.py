"""Ranges of ports for the clusters of a worker, which no other worker on this machine uses meanwhile."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FIRST_PORT = 24_000
PORTS_PER_WORKER = 500
MAX_WORKERS = 16
"""Their ports end before the kernel's ports for outgoing connections begin, at 32768."""


@contextmanager
def lock_port_range() -> Iterator[int]:
    """The first port of a range of PORTS_PER_WORKER, locked against the workers of all working copies."""
    for number in range(MAX_WORKERS):
        port = FIRST_PORT + number * PORTS_PER_WORKER
        with (Path(tempfile.gettempdir()) / f"ruslo-conformance-{port}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield port
            return
    raise RuntimeError(f"{MAX_WORKERS} workers of conformance run on this machine. Wait until one has ended.")
