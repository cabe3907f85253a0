"""The records that a compacted partition must keep: the last of each key, and those of open transactions."""

from __future__ import annotations

from bisect import bisect_left

from ruslo.model.buffers import ReadBuffer
from ruslo.records.batch import BatchHeader
from ruslo.records.control import ControlType, read_control_type
from ruslo.records.reader import read_records

Pair = tuple[bytes | None, bytes | None]


class KeyedRecords:
    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._records: dict[int, Pair] = {}
        """Key and value by offset."""
        self._last: dict[bytes | None, int] = {}
        """The last offset by key, of valid records: transactional ones once they are committed."""
        self._open: dict[int, list[int]] = {}
        """The offsets of the open transaction of each producer id."""
        self._undecided: set[int] = set()
        self._aborted: set[int] = set()

    @property
    def last_values(self) -> list[bytes | None]:
        """The values that a full read must find."""
        return [self._records[offset][1] for offset in self._last.values()]

    def committed(self, header: BatchHeader, batch: ReadBuffer) -> None:
        """The next batch of the log."""
        if header.is_control:
            self._end_transaction(header, batch)
            return
        for record in read_records(batch):
            self._offsets.append(record.offset)
            self._records[record.offset] = (record.key, record.value)
            if header.is_transactional:
                self._open.setdefault(header.producer_id, []).append(record.offset)
                self._undecided.add(record.offset)
            else:
                self._last[record.key] = record.offset

    def _end_transaction(self, header: BatchHeader, batch: ReadBuffer) -> None:
        offsets = self._open.pop(header.producer_id, [])
        self._undecided.difference_update(offsets)
        marker = next(read_records(batch))
        if read_control_type(marker.key) == ControlType.ABORT:
            self._aborted.update(offsets)
            return
        for offset in offsets:
            key = self._records[offset][0]
            self._last[key] = max(offset, self._last.get(key, offset))

    def between(self, start: int, end: int) -> list[int]:
        """The offsets of records in the range."""
        return self._offsets[bisect_left(self._offsets, start) : bisect_left(self._offsets, end)]

    def first_mismatch(self, batch: ReadBuffer, found: set[int]) -> str | None:
        """A record of a possibly compacted batch that differs from the committed one; adds offsets to
        ``found``."""
        for record in read_records(batch):
            if self._records.get(record.offset) != (record.key, record.value):
                return f"{record}, committed is {self._records.get(record.offset)}"
            found.add(record.offset)
        return None

    def lost(self, start: int, end: int, found: set[int]) -> str | None:
        """A record that is missing although it must exist."""
        for offset in self.between(start, end):
            if offset not in found and not self._may_be_compacted(offset):
                return f"the record at {offset}, {self._records[offset]}"
        return None

    def _may_be_compacted(self, offset: int) -> bool:
        if offset in self._undecided:
            return False
        return offset in self._aborted or self._last.get(self._records[offset][0], -1) > offset
