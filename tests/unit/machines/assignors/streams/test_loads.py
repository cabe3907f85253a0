"""The least loaded of any set of processes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.machines.assignors.streams.loads import LoadLevels, bits

LOADS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0])


@settings(max_examples=60)
@given(
    st.lists(LOADS, min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(0, 8), LOADS)),
    st.integers(0, 511),
)
def test_lowest_is_the_first_of_the_least_loaded(
    loads: list[float], changes: list[tuple[int, float]], among: int
) -> None:
    levels = LoadLevels(loads)
    for process, load in changes:
        if process < len(loads):
            levels.change(process, load)
            loads[process] = load
    candidates = [process for process in bits(among) if process < len(loads)]
    expected = min(candidates, key=loads.__getitem__) if candidates else None
    assert levels.lowest(among & (1 << len(loads)) - 1) == expected


def test_bits_are_the_processes_of_a_set() -> None:
    assert list(bits(0b10110)) == [1, 2, 4]
    assert list(bits(0)) == []
