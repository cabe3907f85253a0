"""Members by load, filled from below and drained from above.

Picture the members as columns, sorted by height. The low plateau is the run of shortest columns: each of
them is handed out once, then the plateau has risen by one and swallows the columns it has reached. The high
plateau sinks in the same way. Both read the loads as they are now, so whoever takes a member must also
change its load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Levels:
    def __init__(self, loads: Sequence[int], members: Iterable[int]) -> None:
        """``loads`` is indexed by member and is read again and again. There must be at least one member."""
        self._loads = loads
        self._columns = sorted(members, key=lambda member: (loads[member], member))
        lowest, highest = loads[self._columns[0]], loads[self._columns[-1]]
        self.spread = highest - lowest
        """Between the most and the least loaded, at the start."""
        self._low_level = lowest - 1
        self._low_end = 0
        self._low_next = 0
        self._high_level = highest + 1
        self._high_start = self._high_end = len(self._columns)
        self._high_next = len(self._columns) - 1

    @property
    def even(self) -> bool:
        """Whether one move from the high plateau to the low one would gain nothing."""
        return self._high_level - self._low_level <= 1

    def take_lowest(self) -> int:
        """The member that shall get a partition."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._columns) and self._load_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low_next = 0
        member = self._columns[self._low_next]
        self._low_next += 1
        return member

    def take_highest(self) -> int | None:
        """The member that shall give one away; None when nobody is left who might."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # Everybody on the plateau was dropped: it continues at whatever height comes next.
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
        """The member taken last has nothing to give; it leaves the high plateau for good."""
        last = self._high_end - 1
        dropped = self._high_next + 1
        self._columns[dropped], self._columns[last] = self._columns[last], self._columns[dropped]
        self._high_end = last

    def _load_at(self, column: int) -> int:
        return self._loads[self._columns[column]]
