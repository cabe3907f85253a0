"""A histogram of durations, in buckets that double.

The hot path adds to it, so it must cost little: the bucket is the number of bits of the nanoseconds, one list
index. The buckets to export are chosen at a scrape.
"""

from __future__ import annotations

from collections.abc import Sequence

_MAX_BITS = 64


class Durations:
    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (_MAX_BITS + 1)
        """At index n: the number of durations from 2**(n-1) to less than 2**n nanoseconds."""
        self.total_ns = 0

    def observe(self, elapsed_ns: int) -> None:
        self.total_ns += elapsed_ns
        self.buckets[elapsed_ns.bit_length()] += 1

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def cumulative(self, bits: Sequence[int]) -> list[int]:
        """Return the number of durations below 2**n nanoseconds, for each n of the ascending ``bits``."""
        counts, so_far, done = [], 0, 0
        for each in bits:
            so_far += sum(self.buckets[done : each + 1])
            done = each + 1
            counts.append(so_far)
        return counts
