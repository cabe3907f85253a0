"""Sets of offsets as sorted, disjoint ranges, both ends inclusive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

OffsetRanges: TypeAlias = tuple[tuple[int, int], ...]


def union(*sets: Iterable[tuple[int, int]]) -> OffsetRanges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(each for ranges in sets for each in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return tuple(merged)


def intersection(left: Sequence[tuple[int, int]], right: Sequence[tuple[int, int]]) -> OffsetRanges:
    found: list[tuple[int, int]] = []
    at = 0
    for first, last in left:
        while at < len(right) and right[at][1] < first:
            at += 1
        following = at
        while following < len(right) and right[following][0] <= last:
            found.append((max(first, right[following][0]), min(last, right[following][1])))
            following += 1
    return tuple(found)


def difference(left: Sequence[tuple[int, int]], right: Sequence[tuple[int, int]]) -> OffsetRanges:
    found: list[tuple[int, int]] = []
    for first, last in left:
        for begin, end in intersection([(first, last)], right):
            if begin > first:
                found.append((first, begin - 1))
            first = end + 1
        if first <= last:
            found.append((first, last))
    return tuple(found)


def newest(ranges: Sequence[tuple[int, int]], count: int) -> OffsetRanges:
    """The last ``count`` offsets."""
    kept: list[tuple[int, int]] = []
    for first, last in reversed(ranges):
        if count <= 0:
            break
        first = max(first, last - count + 1)
        kept.append((first, last))
        count -= last - first + 1
    return tuple(reversed(kept))
