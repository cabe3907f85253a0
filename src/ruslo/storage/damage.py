"""Damaged ranges of a log: offsets below the recovery point whose bytes on disk are not sound batches.

Recovery truncates what an unclean shutdown left at the end of a log. Damage below the recovery point stays
in the log instead: the records were durable, other replicas may have them, and later records are readable.
Reads of a damaged range fail with CORRUPT_MESSAGE.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

from ruslo.model.errors import ErrorCode, KafkaError


class Damage(NamedTuple):
    first_offset: int
    end_offset: int
    """The first offset after the range."""
    segment_base: int
    problem: str

    def __str__(self) -> str:
        return f"offsets {self.first_offset} to {self.end_offset - 1}: {self.problem}"


class DamagedRange(KafkaError):
    """A walk over batch headers reached bytes that are not a batch with the expected offsets."""

    def __init__(self, position: int, first_offset: int, problem: str) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE, f"the log is damaged from offset {first_offset}: {problem}"
        )
        self.position = position
        self.first_offset = first_offset
        self.problem = problem


class DamageList:
    """The damaged ranges of one log, by offset; they do not overlap. An empty list is false."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: list[Damage] | None = None) -> None:
        self._ranges: list[Damage] = []
        for damage in ranges or ():
            self.add(damage)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def ranges(self) -> list[Damage]:
        return list(self._ranges)

    def add(self, damage: Damage) -> None:
        """Add a range and merge it with those that it overlaps."""
        first, end = damage.first_offset, damage.end_offset
        for known in self._overlapping(first, end):
            first, end = min(first, known.first_offset), max(end, known.end_offset)
            self._ranges.remove(known)
        insort(self._ranges, damage._replace(first_offset=first, end_offset=end))

    def _overlapping(self, first: int, end: int) -> list[Damage]:
        return [each for each in self._ranges if each.first_offset < end and first < each.end_offset]

    def forget_segment(self, base_offset: int) -> None:
        """Drop the ranges of a segment that was repaired or checked again."""
        self._ranges = [each for each in self._ranges if each.segment_base != base_offset]

    def keep_between(self, start_offset: int, end_offset: int) -> None:
        """Drop the ranges outside the log, after retention or truncation."""
        self._ranges = [
            each._replace(end_offset=min(each.end_offset, end_offset))
            for each in self._ranges
            if each.end_offset > start_offset and each.first_offset < end_offset
        ]

    def bound(self, offset: int, upper_bound: int) -> int:
        """The upper bound of a read, before the next damaged range; raises KafkaError if it starts in one."""
        at = bisect_right(self._ranges, offset, key=lambda each: each.first_offset)
        if at and offset < self._ranges[at - 1].end_offset:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the log is damaged: {self._ranges[at - 1]}")
        return min(upper_bound, self._ranges[at].first_offset) if at < len(self._ranges) else upper_bound
