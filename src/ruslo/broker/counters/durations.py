"""How long things took, in buckets that double.

The hot path adds to it, so that it must cost next to nothing: the bucket is the number of bits of the
nanoseconds, one list index. Which buckets are shown is decided when somebody asks.
"""

from __future__ import annotations

from collections.abc import Sequence

_MOST_BITS = 64


class Durations:
    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (_MOST_BITS + 1)
        """At n: how many took at least 2**(n-1) and less than 2**n nanoseconds."""
        self.total_ns = 0

    def observe(self, elapsed_ns: int) -> None:
        self.total_ns += elapsed_ns
        self.buckets[elapsed_ns.bit_length()] += 1

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def cumulative(self, bits: Sequence[int]) -> list[int]:
        """How many took less than 2**n nanoseconds, for each n of ``bits``, which rise."""
        counts, so_far, done = [], 0, 0
        for each in bits:
            so_far += sum(self.buckets[done : each + 1])
            done = each + 1
            counts.append(so_far)
        return counts
