from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.limits import TriggerLimits, limit_ends

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
STARTS = {A0: 100, A1: 0, B0: 7}
ENDS = {A0: 1100, A1: 3000, B0: 7}


def limited(
    limits: TriggerLimits, sizes: dict[TopicPartition, float] | None = None
) -> dict[TopicPartition, int]:
    ends = limit_ends(STARTS, ENDS, limits, sizes or {})
    return {partition: end - STARTS[partition] for partition, end in ends.items()}


def test_shares_are_proportional_to_the_lag() -> None:
    assert limited(TriggerLimits(max_offsets=400)) == {A0: 100, A1: 300, B0: 0}


def test_a_limit_above_the_lag() -> None:
    assert limited(TriggerLimits(max_offsets=10_000)) == {A0: 1000, A1: 3000, B0: 0}


def test_a_limit_in_bytes() -> None:
    assert limited(TriggerLimits(max_bytes=200_000), {A0: 100.0, A1: 100.0}) == {A0: 500, A1: 1500, B0: 0}


def test_limits_per_topic() -> None:
    starts, ends = {A0: 0, B0: 0}, {A0: 1000, B0: 1000}
    limits = TriggerLimits(max_offsets_of_topic={"a": 10}, max_bytes_of_topic={"b": 500})
    assert limit_ends(starts, ends, limits, {B0: 10.0}) == {A0: 10, B0: 50}


def test_the_lowest_limit_applies() -> None:
    limits = TriggerLimits(max_offsets=100, max_bytes=1000, max_offsets_of_topic={"a": 50})
    assert sum(limited(limits, {A0: 100.0, A1: 100.0}).values()) == 10


def test_a_query_always_advances() -> None:
    assert sum(limited(TriggerLimits(max_bytes=1), {A0: 1e6, A1: 1e6}).values()) == 1


def test_without_new_records_nothing_is_read() -> None:
    assert limit_ends(STARTS, STARTS, TriggerLimits(max_offsets=1), {}) == STARTS


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=20),
    st.integers(1, 10**6),
)
def test_the_limit_is_reached_but_not_exceeded(ranges: list[tuple[int, int]], limit: int) -> None:
    starts = {TopicPartition("t", n): start for n, (start, _) in enumerate(ranges)}
    ends = {TopicPartition("t", n): start + lag for n, (start, lag) in enumerate(ranges)}
    found = limit_ends(starts, ends, TriggerLimits(max_offsets=limit), {})
    assert all(starts[p] <= found[p] <= ends[p] for p in starts)
    assert sum(found[p] - starts[p] for p in starts) == min(limit, sum(lag for _, lag in ranges))
