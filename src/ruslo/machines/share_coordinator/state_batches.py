"""Ranges of offsets with their delivery state, and how a write changes them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class StateBatch(NamedTuple):
    first: int
    last: int
    """Inclusive."""
    state: int
    delivery_count: int


def combine(batches: Sequence[StateBatch], new: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """The batches after a write, in the order of offsets and without overlaps.

    Where two overlap, the higher delivery count wins, then the higher state: writes that arrive late must not
    revert later ones. Offsets before the start offset are removed; -1 removes none.
    """
    combined = list(batches)
    for each in new:
        _insert(combined, each)
    if combined and combined[0].last < start_offset:
        del combined[: _count_before(combined, start_offset)]
    if combined and combined[0].first < start_offset:
        combined[0] = combined[0]._replace(first=start_offset)
    return combined


def _count_before(batches: list[StateBatch], offset: int) -> int:
    """The number of batches that end before the offset, at least one."""
    count = bisect_right(batches, offset, key=_first)
    return count - 1 if batches[count - 1].last >= offset else count


def _insert(batches: list[StateBatch], new: StateBatch) -> None:
    if not batches or new.first > batches[-1].last:
        # The usual case: a leader writes ranges in the order of offsets.
        if batches and batches[-1].last + 1 == new.first and _priority(batches[-1]) == _priority(new):
            batches[-1] = batches[-1]._replace(last=new.last)
        else:
            batches.append(new)
        return
    begin = max(bisect_right(batches, new.first, key=_first) - 1, 0)
    if begin < len(batches) and batches[begin].last < new.first:
        begin += 1
    end = begin
    while end < len(batches) and batches[end].first <= new.last:
        end += 1
    pieces: list[StateBatch] = []
    at = new.first
    for old in batches[begin:end]:
        if old.first < at:
            pieces.append(old._replace(last=at - 1))
        elif old.first > at:
            pieces.append(new._replace(first=at, last=old.first - 1))
        first, last = max(old.first, at), min(old.last, new.last)
        pieces.append(max(old, new, key=_priority)._replace(first=first, last=last))
        if old.last > new.last:
            pieces.append(old._replace(first=new.last + 1))
        at = last + 1
    if at <= new.last:
        pieces.append(new._replace(first=at))
    # The neighbours on both sides may continue with the same state.
    begin, end = max(begin - 1, 0), min(end + 1, len(batches))
    before = [each for each in batches[begin:end] if each.last < pieces[0].first]
    after = [each for each in batches[begin:end] if each.first > pieces[-1].last]
    batches[begin:end] = _joined([*before, *pieces, *after])


def _joined(batches: list[StateBatch]) -> list[StateBatch]:
    joined = batches[:1]
    for batch in batches[1:]:
        before = joined[-1]
        if before.last + 1 == batch.first and _priority(before) == _priority(batch):
            joined[-1] = before._replace(last=batch.last)
        else:
            joined.append(batch)
    return joined


def _first(batch: StateBatch) -> int:
    return batch.first


def _priority(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.state
