"""Histograms of durations with buckets that double."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruslo.broker.counters.durations import Durations

BITS = range(16, 36)


@given(st.lists(st.integers(0, 1 << 63)))
def test_buckets_are_cumulative(elapsed: list[int]) -> None:
    durations = Durations()
    for each in elapsed:
        durations.observe(each)
    assert durations.cumulative(BITS) == [sum(each < 2**bits for each in elapsed) for bits in BITS]
    assert (durations.count, durations.total_ns) == (len(elapsed), sum(elapsed))
