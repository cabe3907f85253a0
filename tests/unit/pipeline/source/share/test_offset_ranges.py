from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ruslo.pipeline.source.share.offset_ranges import (
    OffsetRanges,
    difference,
    intersection,
    newest,
    union,
)

offset_sets = st.frozensets(st.integers(0, 30))


def ranges_of(offsets: frozenset[int]) -> OffsetRanges:
    return union((offset, offset) for offset in offsets)


def offsets_of(ranges: OffsetRanges) -> frozenset[int]:
    assert all(first <= last for first, last in ranges)
    assert all(left[1] + 1 < right[0] for left, right in pairwise(ranges))
    return frozenset(offset for first, last in ranges for offset in range(first, last + 1))


@given(offset_sets, offset_sets)
def test_ranges_behave_as_sets_of_their_offsets(left: frozenset[int], right: frozenset[int]) -> None:
    one, other = ranges_of(left), ranges_of(right)
    assert offsets_of(one) == left
    assert offsets_of(union(one, other)) == left | right
    assert offsets_of(intersection(one, other)) == left & right
    assert offsets_of(difference(one, other)) == left - right


@given(offset_sets, st.integers(0, 40))
def test_the_newest_offsets_are_kept(offsets: frozenset[int], count: int) -> None:
    assert sorted(offsets_of(newest(ranges_of(offsets), count))) == sorted(offsets)[-count:] * (count > 0)
