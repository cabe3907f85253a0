"""Which records in flight wait for an earlier record of the same key (``ruslo.share.order=key``).

Each key has a queue of offsets. The first record of the queue may be delivered; when it is finished, the next
one that is not finished yet follows it. A record takes 25 bytes, and each key in flight an entry of a dict.
Records are added in the order of their offsets, because a fetch begins at the first available one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

NO_OFFSET = -1


class KeyOrder:
    def __init__(self) -> None:
        self._offset = array("q")
        """The records in flight that have a key; the log may have gaps between them."""
        self._next = array("q")
        """The following record of the same key, or NO_OFFSET."""
        self._key = array("q")
        self._state = array("b")
        self._last: dict[int, int] = {}
        """The last record in the queue of each key."""

    def __bool__(self) -> bool:
        return bool(self._last)

    def add(self, offset: int, key: int) -> bool:
        """Add a record behind all records of its key, once; whether it may be delivered."""
        at = bisect_left(self._offset, offset)
        if at < len(self._offset) and self._offset[at] == offset:
            return self._state[at] != _BEHIND
        last = self._last.get(key)
        self._offset.insert(at, offset)
        self._next.insert(at, NO_OFFSET)
        self._key.insert(at, key)
        self._state.insert(at, _FIRST if last is None else _BEHIND)
        if last is not None:
            self._next[self._index(last)] = offset
        self._last[key] = offset
        return last is None

    def finish(self, first: int, last: int) -> list[int]:
        """The records of this range need no further delivery; returns those that may be delivered now."""
        done: list[int] = []
        for at in range(bisect_left(self._offset, first), bisect_left(self._offset, last + 1)):
            if self._state[at] == _FIRST:
                done.append(at)
            self._state[at] = _FINISHED
        return [offset for at in done if (offset := self._follow(at)) != NO_OFFSET]

    def _follow(self, at: int) -> int:
        """Make the next record of the queue the first one."""
        offset = self._next[at]
        while offset != NO_OFFSET and self._state[self._index(offset)] == _FINISHED:
            offset = self._next[self._index(offset)]
        if offset == NO_OFFSET:
            del self._last[self._key[at]]
        else:
            self._state[self._index(offset)] = _FIRST
        return offset

    def _index(self, offset: int) -> int:
        return bisect_left(self._offset, offset)

    def remove_before(self, offset: int) -> None:
        """Forget finished records before an offset."""
        count = self._index(offset)
        if count:
            for column in (self._offset, self._next, self._key):
                del column[:count]
            del self._state[:count]


_FIRST, _BEHIND, _FINISHED = range(3)
