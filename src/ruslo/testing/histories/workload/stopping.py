"""How a process of a workload is asked to end."""

from __future__ import annotations

import signal
import threading


def stops_on_sigterm() -> threading.Event:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    # Ctrl-C at the terminal is for whoever runs the workload; it ends its processes in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return stopping
