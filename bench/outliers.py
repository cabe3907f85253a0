"""The log lines of the nodes during a long stall of a client, to find its cause without another run."""

from __future__ import annotations

import time
from collections.abc import Iterable

from bench.session import say
from tests.support.brokers.node import Node

LONG_STALL_S = 1.0
MAX_LINES = 60


class Onlooker:
    """Created right before a fault; keeps the time, and the positions in the nodes' logs."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._began_s = time.time()
        self._sizes = [(node, node.log_file.stat().st_size) for node in nodes]

    def tell(self, what: str, stall_s: float) -> None:
        """Print the log lines of a long stall; print nothing for a short one."""
        if stall_s <= LONG_STALL_S:
            return
        began = time.strftime("%H:%M:%S", time.gmtime(self._began_s))
        say(f"{what} at {began}.{int(self._began_s % 1 * 1000):03d} UTC: a stall of {stall_s:.2f} s")
        # Lines begin with the time, so sorting merges the lines of all nodes.
        lines = sorted(line for node, size in self._sizes for line in _lines_from(node, size))
        for line in lines[:MAX_LINES]:
            print(f"    {line}")
        if len(lines) > MAX_LINES:
            print(f"    … and {len(lines) - MAX_LINES} lines more")


def _lines_from(node: Node, position: int) -> list[str]:
    with node.log_file.open("rb") as log:
        log.seek(position)
        return log.read().decode(errors="replace").splitlines()
