"""Which records in flight wait for an earlier record of the same key (``ruslo.share.order=key``).

Each key has a queue of offsets. The first record of the queue may be delivered; when it is finished, the next
one that is not finished yet follows it. A record takes 17 bytes, and each key in flight an entry of a dict.
"""

from __future__ import annotations

from array import array

NO_OFFSET = -1


class KeyOrder:
    def __init__(self) -> None:
        self._base = 0
        """The offset of the first element of the arrays."""
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
        if not self._next:
            self._base = offset
        at = offset - self._base
        missing = at + 1 - len(self._next)
        if missing > 0:
            self._next.extend([NO_OFFSET] * missing)
            self._key.extend([0] * missing)
            self._state.extend([_UNKNOWN] * missing)
        if at < 0 or self._state[at] != _UNKNOWN:
            return at < 0 or self._state[at] != _BEHIND
        last = self._last.get(key)
        self._key[at] = key
        self._state[at] = _FIRST if last is None else _BEHIND
        if last is not None:
            self._next[last - self._base] = offset
        self._last[key] = offset
        return last is None

    def finish(self, first: int, last: int) -> list[int]:
        """The records of this range need no further delivery; returns those that may be delivered now."""
        done: list[int] = []
        for at in range(max(first - self._base, 0), min(last - self._base + 1, len(self._next))):
            if self._state[at] == _FIRST:
                done.append(at)
            if self._state[at] != _UNKNOWN:
                self._state[at] = _FINISHED
        return [offset for at in done if (offset := self._follow(at)) != NO_OFFSET]

    def _follow(self, at: int) -> int:
        """Make the next record of the queue the first one."""
        offset = self._next[at]
        while offset != NO_OFFSET and self._state[offset - self._base] == _FINISHED:
            offset = self._next[offset - self._base]
        if offset == NO_OFFSET:
            del self._last[self._key[at]]
        else:
            self._state[offset - self._base] = _FIRST
        return offset

    def remove_before(self, offset: int) -> None:
        """Forget finished records before an offset."""
        count = min(offset - self._base, len(self._next))
        if count > 0:
            for column in (self._next, self._key):
                del column[:count]
            del self._state[:count]
            self._base += count


_UNKNOWN, _FIRST, _BEHIND, _FINISHED = range(4)
