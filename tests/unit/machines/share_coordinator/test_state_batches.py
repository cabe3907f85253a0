from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.machines.share_coordinator.state_batches import StateBatch, combine

BATCH = st.builds(
    lambda first, size, state, count: StateBatch(first, first + size - 1, state, count),
    st.integers(0, 30),
    st.integers(1, 12),
    st.sampled_from([0, 2, 4]),
    st.integers(0, 4),
)


def by_offset(batches: list[StateBatch]) -> dict[int, tuple[int, int]]:
    return {
        offset: (each.delivery_count, each.state)
        for each in batches
        for offset in range(each.first, each.last + 1)
    }


@given(writes=st.lists(st.tuples(st.lists(BATCH, max_size=4), st.integers(-1, 25)), max_size=6))
def test_offset_by_offset(writes: list[tuple[list[StateBatch], int]]) -> None:
    combined: list[StateBatch] = []
    expected: dict[int, tuple[int, int]] = {}
    for new, start_offset in writes:
        before = list(combined)
        combined = combine(before, new, start_offset)
        for batch in new:
            for offset, priority in by_offset([batch]).items():
                expected[offset] = max(expected.get(offset, priority), priority)
        expected = {offset: each for offset, each in expected.items() if offset >= start_offset}
        assert by_offset(combined) == expected
        for one, other in pairwise(combined):
            assert one.last < other.first
            assert one.last + 1 < other.first or one[2:] != other[2:], "equal neighbours are one batch"


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        ([(0, 9, 0, 1)], (3, 5, 2, 1), [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 9, 2, 2)], (3, 5, 0, 1), [(0, 9, 2, 2)]),
        ([(0, 4, 0, 1), (5, 9, 0, 2)], (0, 4, 0, 2), [(0, 9, 0, 2)]),
        ([(0, 2, 0, 1), (6, 9, 0, 1)], (1, 7, 2, 1), [(0, 0, 0, 1), (1, 7, 2, 1), (8, 9, 0, 1)]),
        ([(10, 12, 0, 1)], (0, 3, 0, 1), [(0, 3, 0, 1), (10, 12, 0, 1)]),
    ],
)
def test_overlaps(before: list[tuple[int, ...]], new: tuple[int, ...], after: list[tuple[int, ...]]) -> None:
    combined = combine([StateBatch(*each) for each in before], [StateBatch(*new)], -1)
    assert [tuple(each) for each in combined] == after
