"""Finds the least loaded of any set of processes.

A set of processes is an int with one bit per process, so "caught up, in another zone, without this task"
costs three bit operations. Few different loads exist at a time, because assignors keep loads close to each
other.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence


class LoadLevels:
    """The processes at each load."""

    def __init__(self, loads: Sequence[float]) -> None:
        self._loads = list(loads)
        self._processes: dict[float, int] = {}
        for process, load in enumerate(self._loads):
            self._processes[load] = self._processes.get(load, 0) | 1 << process
        self._sorted = sorted(self._processes)

    def load(self, process: int) -> float:
        return self._loads[process]

    def change(self, process: int, load: float) -> None:
        bit, before = 1 << process, self._loads[process]
        remaining = self._processes[before] & ~bit
        if remaining:
            self._processes[before] = remaining
        else:
            del self._processes[before]
            del self._sorted[bisect_left(self._sorted, before)]
        if load in self._processes:
            self._processes[load] |= bit
        else:
            self._processes[load] = bit
            insort(self._sorted, load)
        self._loads[process] = load

    def lowest(self, among: int) -> int | None:
        """The first of the least loaded processes of a set; None if the set is empty."""
        if among:
            for load in self._sorted:
                found = self._processes[load] & among
                if found:
                    return (found & -found).bit_length() - 1
        return None


def bits(processes: int) -> Iterator[int]:
    """The processes of a set."""
    while processes:
        lowest = processes & -processes
        yield lowest.bit_length() - 1
        processes ^= lowest
