"""The records in flight of a share-partition, as ranges of offsets with equal state.

The ranges cover every offset from ``start`` to ``end``, without gaps. A range takes about 50 bytes, also when
it holds a single record: plain arrays, and a reference to the member id. Range ``i`` ends where range
``i + 1`` begins.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from ruslo.machines.share_partition.states import TERMINAL_STATES, RecordState

NO_DEADLINE = (1 << 63) - 1
NO_WRITE = 0


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
        lowest = max(self.index(max(first, self.start)) - 1, 0)
        for at in range(min(self.index(min(last, self.end - 1)) + 1, len(self.first) - 1), lowest, -1):
            if self._are_equal(at - 1, at):
                self._delete(at, at + 1)

    def _are_equal(self, one: int, other: int) -> bool:
        if self.write[one] != self.write[other] or self.state[one] != self.state[other]:
            return False
        if self.is_terminal(one):
            return True
        return (
            self.target[one] == self.target[other]
            and self.count[one] == self.count[other]
            and self.deadline_ms[one] == self.deadline_ms[other]
            and self.owner[one] == self.owner[other]
            and self.batch_first[one] == self.batch_first[other]
        )

    def _delete(self, begin: int, end: int) -> None:
        for column in (self.state, self.target, self.count, self.batch_size):
            del column[begin:end]
        for wide in (self.first, self.write, self.deadline_ms, self.batch_first):
            del wide[begin:end]
        del self.owner[begin:end]
