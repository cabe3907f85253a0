"""Which records a fetch acquires for a member.

Records that are available again come before new ones, batch by batch:

* With BATCH_OPTIMIZED the limit of records is checked between batches; with RECORD_LIMIT it is strict.
* From half of the delivery limit on, a batch is delivered in halves of halves: one record in it may be what
  stops consumers. Nothing else is delivered with such a part.
* At its last attempt, a record is delivered alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ruslo.machines.share_partition.ranges import InFlightRanges
from ruslo.machines.share_partition.states import AcquireMode, RecordState
from ruslo.machines.share_partition.values import AcquiredRange, AcquireLimits, OffsetRange, ShareSettings

LIMIT_WITHOUT_SINGLE_DELIVERY = 2
"""With this delivery limit every retry is the last attempt; delivering each alone would be slow."""


class _Available(NamedTuple):
    first: int
    last: int
    delivery_count: int
    batch_first: int
    batch_size: int


def halving_count(delivery_limit: int) -> int:
    """The delivery count from which batches are halved."""
    return max(2, -(-delivery_limit // 2))


class Acquisition:
    """One fetch of one member."""

    def __init__(
        self,
        ranges: InFlightRanges,
        settings: ShareSettings,
        member: str,
        limits: AcquireLimits,
        deadline_ms: int,
    ) -> None:
        self._ranges = ranges
        self._limit = settings.delivery_limit
        self._undeliverable_state = settings.undeliverable_state
        self._halving_count = halving_count(settings.delivery_limit)
        self._member = member
        self._limits = limits
        self._deadline_ms = deadline_ms
        self.acquired: list[AcquiredRange] = []
        self.undeliverable: list[OffsetRange] = []
        """Records that have no delivery left."""
        self._count = 0

    def run(self, batches: Sequence[OffsetRange], first: int, last: int, max_records: int) -> None:
        """Acquire at most ``max_records`` between two offsets, rounded up as the mode says."""
        for group in self._available_batches(first, last):
            if self._count >= max_records:
                return
            if group[0].delivery_count == 0:
                self._acquire_undelivered(batches, group[0], max_records)
                continue
            halved = max(each.delivery_count for each in group) >= self._halving_count
            if halved and self._count:
                return
            self._acquire_again(group, max_records - self._count)
            if halved and self._count:
                return
        if self._count < max_records and last >= self._ranges.end:
            self._acquire_new(batches, max(first, self._ranges.end), last, max_records)

    def _available_batches(self, first: int, last: int) -> Iterator[list[_Available]]:
        """Available ranges, grouped by the batch in which they were acquired at first.

        A range without deliveries is a group by itself. The ranges of a group may change before the next
        group is looked for: a fetch of a few records must not look at all that are available.
        """
        found = self._next_available(first, last)
        while found is not None:
            group = [found]
            while (found := self._next_available(group[-1].last + 1, last)) is not None:
                if found.batch_first != group[0].batch_first or not (
                    found.delivery_count and group[0].delivery_count
                ):
                    break
                group.append(found)
            yield group

    def _next_available(self, first: int, last: int) -> _Available | None:
        """The first available range between two offsets."""
        ranges = self._ranges
        last = min(last, ranges.end - 1)
        if first > last:
            return None
        for at in range(ranges.index(first), len(ranges)):
            if ranges.first[at] > last:
                return None
            if ranges.is_available(at):
                return _Available(
                    max(first, ranges.first[at]),
                    min(last, ranges.last(at)),
                    ranges.count[at],
                    ranges.batch_first[at],
                    ranges.batch_size[at],
                )
        return None

    def _acquire_again(self, group: list[_Available], max_records: int) -> None:
        strict = self._limits.mode is AcquireMode.RECORD_LIMIT
        cap: int | None = None
        count = 0
        for each in group:
            size = each.last - each.first + 1
            attempts_left = self._attempts_left(each.delivery_count)
            if attempts_left <= 0:
                # The delivery limit of the group was lowered.
                self._end_delivery(each.first, each.last)
                continue
            alone = attempts_left == 1 and self._limit > LIMIT_WITHOUT_SINGLE_DELIVERY
            if alone and count:
                return
            if cap is None and each.delivery_count >= self._halving_count:
                cap = max(1, each.batch_size >> (each.delivery_count - self._halving_count + 1))
            if alone:
                size = 1
            if cap is not None:
                size = min(size, cap - count)
            if strict:
                size = min(size, max_records - count)
            if size <= 0:
                return
            self._acquire(each.first, each.first + size - 1, each.delivery_count + 1)
            count += size
            if alone:
                return

    def _attempts_left(self, delivery_count: int) -> int:
        return self._limit - delivery_count

    def _acquire_undelivered(
        self, batches: Sequence[OffsetRange], available: _Available, max_records: int
    ) -> None:
        """Acquire from a gap of the persisted state: the leader before delivered these, or never did."""
        last = self._last_new(batches, available.first, available.last, max_records)
        self._divide_new(batches, available.first, last)

    def _acquire_new(self, batches: Sequence[OffsetRange], first: int, last: int, max_records: int) -> None:
        ranges = self._ranges
        last = self._last_new(batches, first, last, max_records)
        if first > ranges.end:
            if len(ranges):
                # The log was compacted between the last acquired record and this one.
                ranges.append(first - 1, RecordState.ARCHIVED, 0)
            else:
                ranges.end = first
        ranges.append(last, RecordState.AVAILABLE, 0)
        self._divide_new(batches, first, last)

    def _last_new(self, batches: Sequence[OffsetRange], first: int, last: int, max_records: int) -> int:
        """The last new offset to acquire: the limit, rounded up to the end of its batch."""
        limit = first + max_records - self._count - 1
        if limit >= last:
            return last
        if self._limits.mode is AcquireMode.RECORD_LIMIT:
            return limit
        for batch in batches:
            if batch.last >= limit:
                return min(last, batch.last) if batch.first <= limit else limit
        return limit

    def _divide_new(self, batches: Sequence[OffsetRange], first: int, last: int) -> None:
        """Acquire new records, in ranges of ``batch_size`` that end where batches of the log end."""
        # A client may send any number.
        batch_size = max(self._limits.batch_size, 1)
        if self._limits.mode is AcquireMode.BATCH_OPTIMIZED and last - first >= batch_size:
            for batch in batches:
                if batch.first > last:
                    break
                if batch.first - first >= batch_size:
                    self._acquire(first, batch.first - 1, 1)
                    first = batch.first
        self._acquire(first, last, 1)

    def _acquire(self, first: int, last: int, delivery_count: int) -> None:
        ranges = self._ranges
        for at in ranges.divide(first, last):
            ranges.state[at] = ranges.target[at] = RecordState.ACQUIRED
            ranges.count[at] = delivery_count
            ranges.owner[at] = self._member
            ranges.deadline_ms[at] = self._deadline_ms
            if delivery_count == 1:
                ranges.batch_first[at] = first
                ranges.batch_size[at] = min(last - first + 1, 0x7FFFFFFF)
        self._count += last - first + 1
        self.acquired.append(AcquiredRange(first, last, delivery_count))

    def _end_delivery(self, first: int, last: int) -> None:
        for at in self._ranges.divide(first, last):
            self._ranges.set_state(at, self._undeliverable_state)
        self.undeliverable.append(OffsetRange(first, last))


def overlaps(acquired: Sequence[AcquiredRange], others: Sequence[OffsetRange]) -> list[OffsetRange]:
    """The offsets in both; both are in the order of offsets."""
    found: list[OffsetRange] = []
    at = 0
    for first, last, _ in acquired:
        while at < len(others) and others[at].last < first:
            at += 1
        following = at
        while following < len(others) and others[following].first <= last:
            each = others[following]
            found.append(OffsetRange(max(first, each.first), min(last, each.last)))
            following += 1
    return found


def without(acquired: Sequence[AcquiredRange], removed: Sequence[OffsetRange]) -> list[AcquiredRange]:
    """Subtract ranges; both are in the order of offsets."""
    kept: list[AcquiredRange] = []
    at = 0
    for first, last, delivery_count in acquired:
        while at < len(removed) and removed[at].last < first:
            at += 1
        following = at
        while following < len(removed) and removed[following].first <= last:
            each = removed[following]
            if each.first > first:
                kept.append(AcquiredRange(first, each.first - 1, delivery_count))
            first = each.last + 1
            following += 1
        if first <= last:
            kept.append(AcquiredRange(first, last, delivery_count))
    return kept
