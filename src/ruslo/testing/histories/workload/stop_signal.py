"""How the processes of a workload are stopped."""

from __future__ import annotations

import signal
import threading


def stop_event() -> threading.Event:
    """An event that SIGTERM sets."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    # Ctrl-C in a terminal also reaches this process, but the workload stops its processes in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return stopping
