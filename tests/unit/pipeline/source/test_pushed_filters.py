from __future__ import annotations

import datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ruslo.pipeline.source.pushed_filters import PushedFilters

MOMENT = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


def pushed(*filters: Filter) -> PushedFilters:
    found = PushedFilters()
    for one in filters:
        found = found.with_filter(one)
    return found


def test_topics_and_partitions() -> None:
    found = pushed(In(("topic",), ("a", "b")), EqualTo(("topic",), "b"), EqualTo(("partition",), 3))
    assert (found.topics, found.partitions) == (frozenset({"b"}), frozenset({3}))


def test_null_matches_no_offset() -> None:
    found = pushed(In(("offset",), (3, None, 9)), In(("partition",), (1, None)))
    assert (found.first_offset, found.end_offset) == (3, 10)
    assert found.partitions == frozenset({1, None})


def test_offsets() -> None:
    found = pushed(GreaterThan(("offset",), 5), LessThanOrEqual(("offset",), 20))
    assert (found.first_offset, found.end_offset) == (6, 21)
    found = pushed(GreaterThanOrEqual(("offset",), 5), LessThan(("offset",), 20))
    assert (found.first_offset, found.end_offset) == (5, 20)
    assert pushed(EqualTo(("offset",), 7)).end_offset == 8
    found = pushed(In(("offset",), (3, 9)))
    assert (found.first_offset, found.end_offset) == (3, 10)


def test_only_a_lower_time_bound_narrows() -> None:
    assert pushed(GreaterThan(("timestamp",), MOMENT)).min_timestamp == 1_769_860_800_000
    naive = MOMENT.replace(tzinfo=None)
    assert pushed(EqualTo(("timestamp",), naive)).min_timestamp == 1_769_860_800_000
    # Producers set timestamps, so a record may be older than the previous one.
    assert pushed(LessThan(("timestamp",), MOMENT)) == PushedFilters()


def test_filters_on_other_columns_are_ignored() -> None:
    assert pushed(IsNotNull(("value",)), EqualTo(("key",), b"k")) == PushedFilters()
