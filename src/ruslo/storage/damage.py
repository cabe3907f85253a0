"""Ranges of a log that hold no sound batches although they should: damage to the bytes on disk.

Recovery truncates what an unclean stop left at the end of a log. Damage below the recovery point is another
matter: the records were durable, other replicas may have them, and offsets behind the damage are still good.
Such a range stays where it is, and reads of it are answered with CORRUPT_MESSAGE.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

from ruslo.model.errors import ErrorCode, KafkaError


class Damage(NamedTuple):
    first_offset: int
    end_offset: int
    """The first offset behind the range."""
    segment_base: int
    problem: str

    def __str__(self) -> str:
        return f"offsets {self.first_offset} to {self.end_offset - 1}: {self.problem}"


class DamagedRange(KafkaError):
    """A walk over batch headers reached bytes that are not a batch of this place."""

    def __init__(self, position: int, first_offset: int, problem: str) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE, f"the log is damaged from offset {first_offset} on: {problem}"
        )
        self.position = position
        self.first_offset = first_offset
        self.problem = problem


class DamageList:
    """The damaged ranges of one log, by offset; they do not overlap. False in a sound log."""

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
        """Note a range. Ranges that it overlaps become one with it."""
        first, end = damage.first_offset, damage.end_offset
        for known in self._overlapping(first, end):
            first, end = min(first, known.first_offset), max(end, known.end_offset)
            self._ranges.remove(known)
        insort(self._ranges, damage._replace(first_offset=first, end_offset=end))

    def _overlapping(self, first: int, end: int) -> list[Damage]:
        return [each for each in self._ranges if each.first_offset < end and first < each.end_offset]

    def forget_segment(self, base_offset: int) -> None:
        """The segment was repaired, or is about to be checked again."""
        self._ranges = [each for each in self._ranges if each.segment_base != base_offset]

    def keep_between(self, start_offset: int, end_offset: int) -> None:
        """Forget the ranges that retention or a truncation took away."""
        self._ranges = [
            each._replace(end_offset=min(each.end_offset, end_offset))
            for each in self._ranges
            if each.end_offset > start_offset and each.first_offset < end_offset
        ]

    def bound(self, offset: int, upper_bound: int) -> int:
        """Where a read from ``offset`` must end at the latest; raises KafkaError if it begins in a range."""
        at = bisect_right(self._ranges, offset, key=lambda each: each.first_offset)
        if at and offset < self._ranges[at - 1].end_offset:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the log is damaged: {self._ranges[at - 1]}")
        return min(upper_bound, self._ranges[at].first_offset) if at < len(self._ranges) else upper_bound
