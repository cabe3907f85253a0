"""Filters of a query that tell which partitions, offsets and times it needs."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.positions import Positions
from ruslo.pipeline.source.survey import Survey

_MAX_OFFSET: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class PushedFilters:
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = _MAX_OFFSET
    min_timestamp: int | None = None
    """Milliseconds; older records are not needed."""

    def with_filter(self, pushed: Filter) -> PushedFilters:
        """Narrowed by one more filter; the same for a filter that says nothing about where records lie."""
        if isinstance(pushed, In):
            column, wanted = pushed.attribute, frozenset(pushed.value)
        elif isinstance(pushed, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
            column, wanted = pushed.attribute, frozenset([pushed.value])
        else:
            return self
        exact = isinstance(pushed, EqualTo | In)
        if column == ("topic",) and exact:
            return replace(self, topics=wanted if self.topics is None else self.topics & wanted)
        if column == ("partition",) and exact:
            return replace(self, partitions=wanted if self.partitions is None else self.partitions & wanted)
        if column == ("offset",):
            # No offset equals null, which SQL allows in a list.
            return self._with_offsets(pushed, [int(offset) for offset in wanted if offset is not None])
        if column == ("timestamp",) and isinstance(pushed, EqualTo | GreaterThan | GreaterThanOrEqual):
            moment = _milliseconds(pushed.value)
            known = self.min_timestamp
            return replace(self, min_timestamp=moment if known is None else max(known, moment))
        return self

    def _with_offsets(self, pushed: Filter, offsets: list[int]) -> PushedFilters:
        first, end = min(offsets, default=0), max(offsets, default=-1) + 1
        if isinstance(pushed, GreaterThan):
            first, end = first + 1, _MAX_OFFSET
        elif isinstance(pushed, GreaterThanOrEqual):
            end = _MAX_OFFSET
        elif isinstance(pushed, LessThan):
            first, end = 0, end - 1
        elif isinstance(pushed, LessThanOrEqual):
            first = 0
        return replace(self, first_offset=max(self.first_offset, first), end_offset=min(self.end_offset, end))

    def narrow(
        self, survey: Survey, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """What is left of starts and ends; times are looked up in the brokers' indexes."""
        kept = [partition for partition in starts if self._wants(partition)]
        narrowed = {p: max(starts[p], self.first_offset) for p in kept}
        if self.min_timestamp is not None and kept:
            # Everything before the first record of that age is older, whatever order the times are in.
            by_time = survey.resolve(Positions(max(0, self.min_timestamp), are_times=True), kept)
            narrowed = {p: max(start, by_time[p]) for p, start in narrowed.items()}
        return narrowed, {p: min(ends[p], self.end_offset) for p in kept}

    def _wants(self, partition: TopicPartition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )


def _milliseconds(moment: datetime.datetime) -> int:
    utc = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
    return int(utc.timestamp() * 1000)
