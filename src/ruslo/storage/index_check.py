"""Whether the indexes beside a closed segment can belong to it: looked at when a log is opened.

It is enough to look at their sizes and last entries: entries rise, so that an index of another file, of a
newer state of this one, or one whose content never reached the disk gives itself away there. What is damaged
in the middle costs a longer search, because look-ups check what they find. A transaction index is read whole:
nobody would notice at a look-up what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.model.errors import CorruptLogError
from ruslo.storage.checkpoints import TxnIndexChecksum
from ruslo.storage.index import OFFSET_ENTRY, TIME_ENTRY, IndexFile
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from ruslo.storage.txn_index import AbortedTransaction

_ANY_OFFSET = -(1 << 63)


def find_fault(
    segment: Segment, next_base: int | None, abort_index: TxnIndexChecksum | None = None
) -> str | None:
    """What is wrong with the indexes of a segment that is not empty, in words; None: nothing.

    ``next_base``: of the segment after it. ``abort_index``: what the transaction index held, if it is known.
    """
    if abort_index is not None and not segment.txn_index.extends(abort_index):
        return f"{segment.path_of(TXN_INDEX_SUFFIX)} is not what was written"
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


def _offset_index_fault(segment: Segment, last_offset: int) -> str | None:
    path = segment.path_of(INDEX_SUFFIX)
    status = segment.disk.status(path)
    if status is None:
        return "is missing"
    if status.size % OFFSET_ENTRY.size:
        return f"has {status.size} bytes, not a multiple of {OFFSET_ENTRY.size}"
    if not status.size:
        # A small segment needs no entry.
        return None
    found = IndexFile(segment.disk.open(path), OFFSET_ENTRY).last()
    assert found is not None
    offset, position = found
    if not position:
        return "ends in zeros"
    if position >= segment.size:
        return f"knows position {position}, the segment has {segment.size} bytes"
    return f"knows an offset {offset - last_offset} past the segment's last" if offset > last_offset else None


def _time_index_fault(segment: Segment, last_offset: int) -> str | None:
    path = segment.path_of(TIME_INDEX_SUFFIX)
    status = segment.disk.status(path)
    if status is None:
        return "is missing"
    if status.size % TIME_ENTRY.size:
        return f"has {status.size} bytes, not a multiple of {TIME_ENTRY.size}"
    if not status.size:
        # Records without timestamps have none.
        return None
    index = IndexFile(segment.disk.open(path), TIME_ENTRY)
    timestamp, offset = index.entry(len(index) - 1)
    if len(index) > 1 and timestamp <= index.entry(len(index) - 2)[0]:
        return "does not rise at its end"
    if timestamp < 0 or offset > last_offset:
        return f"ends in timestamp {timestamp}, {offset} offsets behind the segment's base"
    return None


def _txn_index_fault(segment: Segment, last_offset: int) -> str | None:
    try:
        return _entries_fault(segment.txn_index.entries(_ANY_OFFSET), segment.base_offset, last_offset)
    except CorruptLogError as error:
        return f"cannot be read: {error}"


def _entries_fault(aborts: Iterable[AbortedTransaction], base: int, last_offset: int) -> str | None:
    previous = base - 1
    for each in aborts:
        # A marker stands behind the records it aborts.
        if each.producer_id < 0 or each.first_offset < 0 or each.first_offset >= each.last_offset:
            return f"has an entry that is no transaction: {each}"
        if not previous < each.last_offset <= base + last_offset:
            return f"knows a marker at offset {each.last_offset}, which is not in its place in the segment"
        previous = each.last_offset
    return None
