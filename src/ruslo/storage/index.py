"""The offset index and the time index of a segment.

* Offset index (``.index``), 8 bytes per entry: the last offset of a batch, relative to the base offset of the
  segment, and the position of that batch.
* Time index (``.timeindex``), 12 bytes per entry: the largest timestamp so far, and the relative last offset
  of the batch that has it. Timestamps strictly ascend.

The indexes of the active segment are arrays in memory and are written when it is rolled. A crash before that
costs nothing, because recovery rebuilds the indexes of the last segment anyway. The indexes of sealed
segments are searched on disk.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from ruslo.storage.disk import DiskFile

OFFSET_ENTRY = struct.Struct(">II")
TIME_ENTRY = struct.Struct(">qI")

_BLOCK_BYTES = 4096
_LITTLE_ENDIAN = sys.byteorder == "little"


class TimeEntry(NamedTuple):
    timestamp: int
    relative_offset: int


class OffsetIndex:
    """The offset index of an active segment."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("I")
        self.positions = array("I")

    @classmethod
    def from_bytes(cls, data: bytes) -> OffsetIndex:
        index = cls()
        words = _words(data, OFFSET_ENTRY.size)
        index.offsets = words[0::2]
        index.positions = words[1::2]
        # The first batch never has an entry, so position 0 is the zero padding of a preallocated file.
        while index.positions and not index.positions[-1]:
            index.offsets.pop()
            index.positions.pop()
        return index

    def to_bytes(self) -> bytes:
        words = array("I", bytes(8 * len(self.offsets)))
        words[0::2] = self.offsets
        words[1::2] = self.positions
        return _big_endian(words)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def __len__(self) -> int:
        return len(self.offsets)

    def entry(self, at: int) -> tuple[int, int]:
        return self.offsets[at], self.positions[at]

    def count_below(self, target: int, field: int) -> int:
        """As ``IndexFile.count_below``."""
        return bisect_left(self.positions if field else self.offsets, target)

    def floor_position(self, relative_offset: int) -> int:
        """The position to search an offset from: that of the largest entry ≤ the offset, else 0."""
        at = bisect_right(self.offsets, relative_offset)
        return self.positions[at - 1] if at else 0

    def truncate_to(self, relative_offset: int) -> None:
        """Remove the entries at or past an offset."""
        at = bisect_left(self.offsets, relative_offset)
        del self.offsets[at:]
        del self.positions[at:]


class TimeIndex:
    """The time index of an active segment."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("I")

    @classmethod
    def from_bytes(cls, data: bytes) -> TimeIndex:
        index = cls()
        words = _words(data, TIME_ENTRY.size)
        halves = array("I", bytes(8 * (len(words) // 3)))
        # A 64-bit number is two words, whose order depends on the machine.
        halves[0::2] = words[1::3] if _LITTLE_ENDIAN else words[0::3]
        halves[1::2] = words[0::3] if _LITTLE_ENDIAN else words[1::3]
        index.timestamps = array("q", halves.tobytes())
        index.offsets = words[2::3]
        while len(index.timestamps) > 1 and index.timestamps[-1] <= index.timestamps[-2]:
            index.timestamps.pop()
            index.offsets.pop()
        if len(index.timestamps) == 1 and not index.timestamps[0]:
            return cls()
        return index

    def to_bytes(self) -> bytes:
        count = len(self.timestamps)
        halves = array("I", self.timestamps.tobytes())
        words = array("I", bytes(12 * count))
        words[0::3] = halves[1::2] if _LITTLE_ENDIAN else halves[0::2]
        words[1::3] = halves[0::2] if _LITTLE_ENDIAN else halves[1::2]
        words[2::3] = self.offsets
        return _big_endian(words)

    def append_if_later(self, timestamp: int, relative_offset: int) -> None:
        timestamps = self.timestamps
        if timestamp > (timestamps[-1] if timestamps else -1):
            timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def floor_offset(self, timestamp: int) -> int:
        """The relative offset of the last entry whose timestamp is < ``timestamp``, else 0.

        All records up to that entry are older, so a search may start there.
        """
        at = bisect_left(self.timestamps, timestamp)
        return self.offsets[at - 1] if at else 0

    def last(self) -> TimeEntry | None:
        return TimeEntry(self.timestamps[-1], self.offsets[-1]) if self.timestamps else None

    def truncate_to(self, relative_offset: int) -> None:
        at = bisect_left(self.offsets, relative_offset)
        del self.timestamps[at:]
        del self.offsets[at:]


def _words(data: bytes, entry_size: int) -> array[int]:
    whole = len(data) - len(data) % entry_size
    words = array("I", data[:whole])
    if _LITTLE_ENDIAN:
        words.byteswap()
    return words


def _big_endian(words: array[int]) -> bytes:
    if _LITTLE_ENDIAN:
        words.byteswap()
    return words.tobytes()


class IndexFile:
    """An index on disk, searched without loading it: by single entries, then with one block read."""

    __slots__ = ("_count", "_entry", "_file")

    def __init__(self, file: DiskFile, entry: struct.Struct) -> None:
        self._file = file
        self._entry = entry
        self._count = file.size() // entry.size

    def __len__(self) -> int:
        return self._count

    def entry(self, at: int) -> tuple[int, int]:
        first, second = self._entry.unpack(self._file.pread(self._entry.size, at * self._entry.size))
        return first, second

    def last(self) -> tuple[int, int] | None:
        return self.entry(self._count - 1) if self._count else None

    def count_below(self, target: int, field: int) -> int:
        """How many entries have ``entry[field]`` < ``target``; both fields ascend."""
        low, high = 0, self._count
        per_block = _BLOCK_BYTES // self._entry.size
        while high - low > per_block:
            middle = (low + high) // 2
            if self.entry(middle)[field] < target:
                low = middle + 1
            else:
                high = middle
        if low == high:
            return low
        size = self._entry.size
        block = self._file.pread((high - low) * size, low * size)
        values = [entry[field] for entry in self._entry.iter_unpack(block)]
        return low + bisect_left(values, target)


def floor_position(index: IndexFile, relative_offset: int) -> int:
    """As ``OffsetIndex.floor_position``."""
    at = index.count_below(relative_offset + 1, 0)
    return index.entry(at - 1)[1] if at else 0


def floor_time_offset(index: IndexFile, timestamp: int) -> int:
    """As ``TimeIndex.floor_offset``."""
    at = index.count_below(timestamp, 0)
    return index.entry(at - 1)[1] if at else 0
