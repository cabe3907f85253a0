"""The records in flight of a share-partition, as ranges of offsets with equal state.

The ranges cover every offset from ``start`` to ``end``, without gaps. A range takes about 50 bytes, also when
it holds a single record: plain arrays, and a reference to the member id. Range ``i`` ends where range
``i + 1`` begins.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from ruslo.machines.share_partition.states import TERMINAL_STATES, RecordState

NO_DEADLINE = (1 << 63) - 1
NO_WRITE = 0

_MANY = 16
"""From this many divisions on, one pass over the ranges is faster than inserting each."""


class InFlightRanges:
    __slots__ = (
        "batch_first",
        "batch_size",
        "count",
        "deadline_ms",
        "end",
        "first",
        "owner",
        "state",
        "target",
        "write",
    )

    def __init__(self, start: int) -> None:
        self.end = start
        """The offset after the last range."""
        self.first = array("q")
        self.state = array("b")
        self.target = array("b")
        """The state after the write that is in progress; without one, the state itself."""
        self.write = array("q")
        """The id of the write in progress, or NO_WRITE."""
        self.count = array("h")
        """Delivery counts."""
        self.deadline_ms = array("q")
        """The time when the acquisition lock is released, or NO_DEADLINE."""
        self.owner: list[str | None] = []
        """The member that holds the acquisition lock."""
        self.batch_first = array("q")
        self.batch_size = array("i")
        """The range that was acquired together when the records were first delivered."""

    def __len__(self) -> int:
        return len(self.first)

    @property
    def start(self) -> int:
        return self.first[0] if self.first else self.end

    def last(self, at: int) -> int:
        """The last offset of a range, inclusive."""
        return (self.first[at + 1] if at + 1 < len(self.first) else self.end) - 1

    def index(self, offset: int) -> int:
        """The range that contains the offset, which must not be before the start."""
        return bisect_right(self.first, offset) - 1

    def is_available(self, at: int) -> bool:
        return self.state[at] == RecordState.AVAILABLE and self.write[at] == NO_WRITE

    def is_terminal(self, at: int) -> bool:
        """Whether no record of the range will be delivered again, and that is persisted."""
        return self.state[at] in TERMINAL_STATES and self.write[at] == NO_WRITE

    # -- changes ---------------------------------------------------------------------------------------------

    def append(self, last: int, state: RecordState, count: int) -> None:
        """Add a range from the end to ``last``."""
        self.first.append(self.end)
        self.state.append(state)
        self.target.append(state)
        self.write.append(NO_WRITE)
        self.count.append(count)
        self.deadline_ms.append(NO_DEADLINE)
        self.owner.append(None)
        self.batch_first.append(self.end)
        self.batch_size.append(min(last - self.end + 1, 0x7FFFFFFF))
        self.end = last + 1

    def divide_at(self, offsets: Sequence[int]) -> None:
        """Divide ranges so that one begins at each of these offsets, which ascend; all in one pass."""
        if len(offsets) < _MANY:
            for offset in offsets:
                self._boundary(offset)
            return
        begin, end = self.index(offsets[0]), self.index(min(offsets[-1], self.end - 1)) + 1
        known = self.first[begin:end]
        starts = sorted({*known, *(offset for offset in offsets if offset < self.end)})
        if len(starts) == len(known):
            return
        source: list[int] = []
        at, bounds = begin, [*known[1:], self.end]
        for start in starts:
            while start >= bounds[at - begin]:
                at += 1
            source.append(at)
        self._replace(begin, end, source)
        self.first[begin : begin + len(starts)] = array("q", starts)

    def divide(self, first: int, last: int) -> range:
        """The ranges that cover exactly these offsets; ranges that are larger are divided."""
        begin = self._boundary(first)
        return range(begin, self._boundary(last + 1))

    def _boundary(self, offset: int) -> int:
        if offset >= self.end:
            return len(self.first)
        at = self.index(offset)
        if self.first[at] == offset:
            return at
        self.first.insert(at + 1, offset)
        for column in (self.state, self.target, self.count, self.batch_size):
            column.insert(at + 1, column[at])
        for wide in (self.write, self.deadline_ms, self.batch_first):
            wide.insert(at + 1, wide[at])
        self.owner.insert(at + 1, self.owner[at])
        return at + 1

    def set_state(self, at: int, state: RecordState) -> None:
        """Set a state without an acquisition lock."""
        self.state[at] = self.target[at] = state
        self.write[at] = NO_WRITE
        self.deadline_ms[at] = NO_DEADLINE
        self.owner[at] = None

    def complete(self, indexes: Iterable[int]) -> None:
        """Give these ranges their target state, without an acquisition lock."""
        state, target, write, deadline_ms, owner = (
            self.state,
            self.target,
            self.write,
            self.deadline_ms,
            self.owner,
        )
        for at in indexes:
            state[at] = target[at]
            write[at] = NO_WRITE
            deadline_ms[at] = NO_DEADLINE
            owner[at] = None

    def remove_before(self, offset: int) -> None:
        if offset >= self.end:
            self._delete(0, len(self.first))
            self.end = offset
            return
        self._delete(0, self._boundary(offset))

    def merge(self, first: int, last: int) -> None:
        """Join equal neighbours among the ranges of these offsets and the one range on each side."""
        if not self.first:
            return
        begin = max(self.index(max(first, self.start)) - 1, 0)
        end = min(self.index(min(last, self.end - 1)) + 2, len(self.first))
        state, write = self.state, self.write
        kept = [begin]
        for at in range(begin + 1, end):
            if (
                state[at] != state[at - 1]
                or write[at] != write[at - 1]
                or (
                    not (state[at] in TERMINAL_STATES and write[at] == NO_WRITE)
                    and not self._are_alike(at - 1, at)
                )
            ):
                kept.append(at)
        if len(kept) < end - begin:
            self._replace(begin, end, kept)

    def _are_alike(self, one: int, other: int) -> bool:
        """Whether two ranges of the same state and write differ in nothing else."""
        return (
            self.target[one] == self.target[other]
            and self.count[one] == self.count[other]
            and self.deadline_ms[one] == self.deadline_ms[other]
            and self.owner[one] == self.owner[other]
            and self.batch_first[one] == self.batch_first[other]
        )

    def _replace(self, begin: int, end: int, source: Sequence[int]) -> None:
        """Replace the ranges from ``begin`` to ``end`` by copies of these."""
        for column in (self.state, self.target, self.count, self.batch_size):
            column[begin:end] = array(column.typecode, [column[at] for at in source])
        for wide in (self.first, self.write, self.deadline_ms, self.batch_first):
            wide[begin:end] = array(wide.typecode, [wide[at] for at in source])
        self.owner[begin:end] = [self.owner[at] for at in source]

    def _delete(self, begin: int, end: int) -> None:
        for column in (self.state, self.target, self.count, self.batch_size):
            del column[begin:end]
        for wide in (self.first, self.write, self.deadline_ms, self.batch_first):
            del wide[begin:end]
        del self.owner[begin:end]
