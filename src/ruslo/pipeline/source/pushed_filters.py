"""Filters of a query that limit the partitions, offsets and times it reads."""

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
from ruslo.pipeline.source.driver_client import DriverClient
from ruslo.pipeline.source.positions import Positions

_MAX_OFFSET: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class PushedFilters:
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = _MAX_OFFSET
    min_timestamp: int | None = None
    """The oldest timestamp that is needed, in milliseconds."""

    def with_filter(self, pushed: Filter) -> PushedFilters:
        """Narrowed by one more filter; unchanged by filters on other columns."""
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
            # SQL allows null in a list, and no offset equals null.
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
        self, client: DriverClient, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The narrowed starts and ends; the brokers look up times in their indexes."""
        kept = [partition for partition in starts if self._wants(partition)]
        narrowed = {p: max(starts[p], self.first_offset) for p in kept}
        if self.min_timestamp is not None and kept:
            # All records before the first one with this timestamp or a later one are older.
            by_time = client.resolve(Positions(max(0, self.min_timestamp), are_times=True), kept)
            narrowed = {p: max(start, by_time[p]) for p, start in narrowed.items()}
        return narrowed, {p: min(ends[p], self.end_offset) for p in kept}

    def _wants(self, partition: TopicPartition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )


def _milliseconds(moment: datetime.datetime) -> int:
    utc = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
    return int(utc.timestamp() * 1000)
