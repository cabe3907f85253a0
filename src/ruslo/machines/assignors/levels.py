"""Finds the least and the most loaded members while partitions are assigned and moved.

Members are columns sorted by load. The low plateau contains the members of the lowest load: each of them is
returned once, then the plateau rises by one and includes the members of that load. The high plateau falls in
the same way. Both use current loads, so a caller that takes a member must change its load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Levels:
    def __init__(self, loads: Sequence[int], members: Iterable[int]) -> None:
        """``loads`` is indexed by member and read at every call. There must be at least one member."""
        self._loads = loads
        self._columns = sorted(members, key=lambda member: (loads[member], member))
        lowest, highest = loads[self._columns[0]], loads[self._columns[-1]]
        self.spread = highest - lowest
        """The initial difference between the highest and the lowest load."""
        self._low_level = lowest - 1
        self._low_end = 0
        self._low_next = 0
        self._high_level = highest + 1
        self._high_start = self._high_end = len(self._columns)
        self._high_next = len(self._columns) - 1

    @property
    def even(self) -> bool:
        """Whether moving a partition from the high to the low plateau would not improve the balance."""
        return self._high_level - self._low_level <= 1

    def take_lowest(self) -> int:
        """The next member to receive a partition."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._columns) and self._load_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low_next = 0
        member = self._columns[self._low_next]
        self._low_next += 1
        return member

    def take_highest(self) -> int | None:
        """The next member to lose a partition; None if no member is left."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # All members of the plateau were dropped: continue with the next lower load.
                self._high_level = self._load_at(self._high_start - 1)
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._load_at(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        member = self._columns[self._high_next]
        self._high_next -= 1
        return member

    def drop_highest(self) -> None:
        """Remove the last returned member from the high plateau: none of its partitions can move."""
        last = self._high_end - 1
        dropped = self._high_next + 1
        self._columns[dropped], self._columns[last] = self._columns[last], self._columns[dropped]
        self._high_end = last

    def _load_at(self, column: int) -> int:
        return self._loads[self._columns[column]]
