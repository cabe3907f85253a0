"""Checks whether index files belong to their segment.

``find_fault`` runs when a log is opened. It checks the sizes and last entries of the offset and time index:
entries ascend, so the last one reveals an index of another file, of a later state of this file, or one whose
content never reached the disk. Damage in the middle only makes searches longer, because they verify what they
find. The transaction index is read as a whole, because a search cannot detect a missing entry.

``OffsetIndexCheck`` and ``TimeIndexCheck`` compare every entry with the batches of the segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import ClassVar

from ruslo.model.errors import CorruptLogError
from ruslo.storage.checkpoints import TxnIndexChecksum
from ruslo.storage.index import OFFSET_ENTRY, TIME_ENTRY, IndexFile
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from ruslo.storage.txn_index import AbortedTransaction

_ANY_OFFSET = -(1 << 63)


def find_fault(
    segment: Segment, next_base: int | None, txn_index_checksum: TxnIndexChecksum | None = None
) -> str | None:
    """What is wrong with the indexes of a segment that is not empty; None if nothing is.

    ``next_base`` is the base offset of the next segment, ``txn_index_checksum`` the checkpointed checksum.
    """
    if txn_index_checksum is not None and not segment.txn_index.extends(txn_index_checksum):
        return f"{segment.path_of(TXN_INDEX_SUFFIX)} does not match its checksum"
    last = MAX_RELATIVE_OFFSET if next_base is None else next_base - 1 - segment.base_offset
    for kind, check in (
        (INDEX_SUFFIX, _offset_index_fault),
        (TIME_INDEX_SUFFIX, _time_index_fault),
        (TXN_INDEX_SUFFIX, _txn_index_fault),
    ):
        fault = check(segment, last)
        if fault is not None:
            return f"{segment.path_of(kind)} {fault}"
    return None


def _open_index(segment: Segment, kind: str, entry: Struct) -> IndexFile | str | None:
    """The index file of a segment, or its fault; None if it is empty, as that of a small segment may be."""
    path = segment.path_of(kind)
    status = segment.disk.status(path)
    if status is None:
        return "is missing"
    if status.size % entry.size:
        return f"has {status.size} bytes, not a multiple of {entry.size}"
    return IndexFile(segment.disk.open(path), entry) if status.size else None


def _offset_index_fault(segment: Segment, last_offset: int) -> str | None:
    index = _open_index(segment, INDEX_SUFFIX, OFFSET_ENTRY)
    if not isinstance(index, IndexFile):
        return index
    offset, position = index.entry(len(index) - 1)
    if not position:
        return "ends in zeros"
    if position >= segment.size:
        return f"has an entry for position {position}, the segment has {segment.size} bytes"
    return f"has an entry {offset - last_offset} past the last offset" if offset > last_offset else None


def _time_index_fault(segment: Segment, last_offset: int) -> str | None:
    index = _open_index(segment, TIME_INDEX_SUFFIX, TIME_ENTRY)
    if not isinstance(index, IndexFile):
        return index
    timestamp, offset = index.entry(len(index) - 1)
    if len(index) > 1 and timestamp <= index.entry(len(index) - 2)[0]:
        return "has a last timestamp that is not the largest"
    if timestamp < 0 or offset > last_offset:
        return f"ends with timestamp {timestamp} at relative offset {offset}"
    return None


def _txn_index_fault(segment: Segment, last_offset: int) -> str | None:
    try:
        return _entries_fault(segment.txn_index.entries(_ANY_OFFSET), segment.base_offset, last_offset)
    except CorruptLogError as error:
        return f"cannot be read: {error}"


def _entries_fault(aborts: Iterable[AbortedTransaction], base: int, last_offset: int) -> str | None:
    previous = base - 1
    for each in aborts:
        # A marker follows the records that it aborts.
        if each.producer_id < 0 or each.first_offset < 0 or each.first_offset >= each.last_offset:
            return f"has an entry that is not a transaction: {each}"
        if not previous < each.last_offset <= base + last_offset:
            return (
                f"has an entry for a marker at offset {each.last_offset}, out of order or out of the segment"
            )
        previous = each.last_offset
    return None


class _IndexCheck:
    """Compares the entries of an index with the batches of its segment, in order."""

    entry: ClassVar[Struct]

    def __init__(self, data: bytes) -> None:
        self._entries = list(self.entry.iter_unpack(data))
        self._at = 0
        self._problem: str | None = None

    def problem(self) -> str | None:
        if self._problem is None and self._at < len(self._entries):
            return f"{len(self._entries) - self._at} entries point past the last batch"
        return self._problem


class OffsetIndexCheck(_IndexCheck):
    entry = OFFSET_ENTRY

    def check_batch(self, position: int, last_offset: int) -> None:
        while self._at < len(self._entries) and self._problem is None:
            offset, entry_position = self._entries[self._at]
            if entry_position > position:
                return
            self._at += 1
            if (offset, entry_position) != (last_offset, position):
                self._problem = (
                    f"entry {self._at - 1} has relative offset {offset} at position {entry_position}"
                )


class TimeIndexCheck(_IndexCheck):
    entry = TIME_ENTRY
    _largest = -1

    def check_batch(self, timestamp: int, last_offset: int) -> None:
        self._largest = max(self._largest, timestamp)
        while self._at < len(self._entries) and self._problem is None:
            entry_timestamp, offset = self._entries[self._at]
            if offset > last_offset:
                return
            self._at += 1
            if offset != last_offset or entry_timestamp != self._largest or timestamp != self._largest:
                self._problem = (
                    f"entry {self._at - 1} has timestamp {entry_timestamp} at relative offset {offset}"
                )
