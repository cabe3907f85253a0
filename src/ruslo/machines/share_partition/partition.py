"""The delivery state of one share-partition, at the leader of its partition (KIP-932).

A share-partition is a partition as one share group sees it. Its records in flight are between the start
offset and the end offset (exclusive here):

=============  ====================================================================================
event          what happens
=============  ====================================================================================
acquire        available records become acquired: a member holds their lock until a deadline
acknowledge    acquired records of the member change to their new state once that is persisted
expire_locks   records whose lock has expired become available again, or undeliverable at the limit;
               records that waited until now become available
release        as acknowledge with RELEASE, for all records of a member that leaves
on_written     the share coordinator has persisted a write, or the records return to acquired
archive        undeliverable records are in the dead-letter topic: archive them
=============  ====================================================================================

The caller sends the writes of a share-partition to the share coordinator one after the other. The start
offset moves past records that are acknowledged or archived. An acquisition is not persisted: after a failover
its records are delivered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ruslo.machines.share_partition.acknowledgements import check_batch, runs_of
from ruslo.machines.share_partition.acquisition import Acquisition, overlaps, without
from ruslo.machines.share_partition.breaker import PROBES, BreakerState, CircuitBreaker
from ruslo.machines.share_partition.key_order import KeyOrder
from ruslo.machines.share_partition.ranges import NO_DEADLINE, NO_WRITE, InFlightRanges
from ruslo.machines.share_partition.states import (
    DELIVERED_STATES,
    AcknowledgeType,
    AcquireMode,
    RecordState,
)
from ruslo.machines.share_partition.values import (
    PERSISTED_STATES,
    AcknowledgementBatch,
    AcquiredRange,
    AcquireLimits,
    DeliveryRule,
    FetchedBatches,
    Locks,
    OffsetRange,
    ShareSettings,
    StateBatch,
    StateWrite,
    TypeRun,
)
from ruslo.model.errors import ErrorCode, KafkaError


class SharePartition:
    def __init__(
        self, settings: ShareSettings, start_offset: int, batches: Sequence[StateBatch] = ()
    ) -> None:
        """Take over the persisted state. Raises ValueError if that contradicts itself."""
        self._settings = settings
        self._breaker = CircuitBreaker(settings.breaker)
        self._ranges = _loaded(start_offset, batches)
        self._next_write_id = NO_WRITE + 1
        self._writes: dict[int, list[OffsetRange]] = {}
        """The offsets that each write in progress will change."""
        self._first_available = start_offset
        """No offset before this one is available."""
        self._deadline_ms = NO_DEADLINE
        """No lock expires, and no record becomes available, before this time."""
        self._key_order = KeyOrder()
        self._advance()

    @property
    def settings(self) -> ShareSettings:
        """May be replaced at any time; it applies to later events."""
        return self._settings

    @settings.setter
    def settings(self, settings: ShareSettings) -> None:
        self._settings = settings
        self._breaker.settings = settings.breaker

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def breaker_state(self) -> BreakerState:
        return self._breaker.state

    @property
    def start_offset(self) -> int:
        return self._ranges.start

    @property
    def end_offset(self) -> int:
        """The offset after the last record in flight."""
        return self._ranges.end

    @property
    def in_flight(self) -> int:
        return self._ranges.end - self._ranges.start

    @property
    def range_count(self) -> int:
        """Ranges in flight with equal state: what the memory depends on."""
        return len(self._ranges)

    @property
    def delivery_complete_count(self) -> int:
        """Records in flight that are acknowledged or archived, or will be after the writes in progress."""
        ranges = self._ranges
        targets = bytes(ranges.target)
        count = 0
        for state in DELIVERED_STATES:
            at = targets.find(state)
            while at >= 0:
                count += ranges.last(at) - ranges.first[at] + 1
                at = targets.find(state, at + 1)
        return count

    def locks(self) -> Locks:
        ranges = self._ranges
        if not len(ranges):
            return Locks(0, None, 0)
        acquired = RecordState.ACQUIRED
        records, first = 0, NO_DEADLINE
        for at, state in enumerate(ranges.state):
            if state == acquired:
                records += ranges.last(at) - ranges.first[at] + 1
                first = min(first, ranges.deadline_ms[at])
        return Locks(records, None if first == NO_DEADLINE else first, max(ranges.count))

    def next_fetch_offset(self) -> int:
        """The first available offset, or the end offset."""
        ranges = self._ranges
        at = ranges.index(max(self._first_available, ranges.start)) if len(ranges) else 0
        while at < len(ranges) and not ranges.is_available(at):
            at += 1
        self._first_available = ranges.first[at] if at < len(ranges) else ranges.end
        return self._first_available

    def can_acquire(self) -> bool:
        """Whether a fetch may acquire records, if the log has any."""
        if not self._breaker.may_deliver:
            return False
        return self.in_flight < self.settings.max_record_locks or self.next_fetch_offset() < self.end_offset

    def deadline_ms(self) -> int | None:
        """The time for the next ``expire_locks``."""
        pause_ms = self._breaker.deadline_ms()
        if pause_ms is not None:
            return min(self._deadline_ms, pause_ms)
        return None if self._deadline_ms == NO_DEADLINE else self._deadline_ms

    def undeliverable(self) -> list[StateBatch]:
        """The records that must be copied to the dead-letter topic, and archived then."""
        ranges = self._ranges
        if RecordState.ARCHIVING not in ranges.state:
            return []
        return [
            StateBatch(ranges.first[at], ranges.last(at), state, ranges.count[at])
            for at, state in enumerate(ranges.state)
            if state == RecordState.ARCHIVING and ranges.write[at] == NO_WRITE
        ]

    # -- acquire ---------------------------------------------------------------------------------------------

    def acquire(
        self, member: str, limits: AcquireLimits, fetched: FetchedBatches, now_ms: int
    ) -> list[AcquiredRange]:
        """Lock records for a member; their delivery counts include this delivery."""
        ranges, batches = self._ranges, fetched.batches
        if not self._breaker.is_closed:
            if not self._breaker.may_deliver:
                return []
            limits = limits._replace(
                max_records=min(limits.max_records, PROBES), mode=AcquireMode.RECORD_LIMIT
            )
        if limits.max_records <= 0 or not batches or batches[-1].last < ranges.start:
            return []
        last = batches[-1].last
        max_records = min(limits.max_records, self.settings.max_record_locks - self.in_flight)
        if max_records <= 0:
            # Only records that are in flight already can be acquired again.
            if fetched.fetch_offset >= ranges.end:
                return []
            max_records = min(limits.max_records, ranges.end - fetched.fetch_offset)
            last = min(last, ranges.end - 1)
        self._archive_compacted(fetched.fetch_offset, batches[0].first)
        deadline_ms = now_ms + self.settings.lock_duration_ms
        acquisition = Acquisition(ranges, self.settings, member, limits, deadline_ms)
        acquisition.run(batches, max(batches[0].first, ranges.start), last, max_records)
        acquired = acquisition.acquired
        self._finish(acquisition.undeliverable)
        if fetched.aborted:
            self._archive_aborted(acquired, fetched.aborted)
            acquired = without(acquired, fetched.aborted)
        if fetched.rules and acquired:
            acquired = self._hold_back(acquired, fetched.rules, now_ms)
        if acquired:
            self._breaker.delivered(now_ms)
            self._deadline_ms = min(self._deadline_ms, deadline_ms)
            ranges.merge(acquired[0].first, acquired[-1].last)
        self._advance()
        return acquired

    def _archive_compacted(self, fetch_offset: int, base_offset: int) -> None:
        """The log has no record between the two offsets any more."""
        ranges = self._ranges
        first, last = max(fetch_offset, ranges.start), min(base_offset, ranges.end) - 1
        if first <= last:
            compacted: list[OffsetRange] = []
            for at in ranges.divide(first, last):
                if ranges.is_available(at) or ranges.state[at] == RecordState.WAITING:
                    ranges.set_state(at, RecordState.ARCHIVED)
                    compacted.append(OffsetRange(ranges.first[at], ranges.last(at)))
            self._finish(compacted)
            ranges.merge(first, last)

    def _archive_aborted(self, acquired: Sequence[AcquiredRange], aborted: Sequence[OffsetRange]) -> None:
        undelivered = overlaps(acquired, aborted)
        for first, last in undelivered:
            for at in self._ranges.divide(first, last):
                self._ranges.set_state(at, RecordState.ARCHIVED)
        self._finish(undelivered)

    # -- records that wait -----------------------------------------------------------------------------------

    def _hold_back(
        self, acquired: Sequence[AcquiredRange], rules: Sequence[DeliveryRule], now_ms: int
    ) -> list[AcquiredRange]:
        """Let acquired records wait whose time has not come, or that have an earlier one of their key."""
        waiting: list[OffsetRange] = []
        following = 0
        for offset, key, not_before_ms in rules:
            while following < len(acquired) and acquired[following].last < offset:
                following += 1
            if following == len(acquired):
                break
            if offset < acquired[following].first:
                continue
            is_first = key is None or self._key_order.add(offset, key)
            if is_first and not_before_ms <= now_ms:
                continue
            (at,) = self._ranges.divide(offset, offset)
            self._ranges.count[at] -= 1
            self._wait(at, not_before_ms if is_first else NO_DEADLINE)
            waiting.append(OffsetRange(offset, offset))
        return without(acquired, waiting)

    def _wait(self, at: int, until_ms: int) -> None:
        self._ranges.set_state(at, RecordState.WAITING)
        self._ranges.deadline_ms[at] = until_ms
        self._deadline_ms = min(self._deadline_ms, until_ms)

    def _back_off(self, released: Iterable[int], now_ms: int) -> None:
        """Let released records wait before their next delivery."""
        if self.settings.retry_backoff_ms:
            for at in released:
                if self._ranges.state[at] == RecordState.AVAILABLE:
                    self._wait(at, now_ms + self.settings.backoff_ms(self._ranges.count[at]))

    def _finished(self, changed: Iterable[int]) -> list[OffsetRange]:
        """The ranges among these that are never delivered again; only groups with an order need them."""
        if not self._key_order:
            return []
        ranges = self._ranges
        return [
            OffsetRange(ranges.first[at], ranges.last(at))
            for at in changed
            if ranges.state[at] in DELIVERED_STATES
        ]

    def _finish(self, finished: Iterable[OffsetRange]) -> None:
        """No record of these ranges is delivered again: records of the same keys may follow."""
        if not self._key_order:
            return
        ranges = self._ranges
        for first, last in finished:
            for offset in self._key_order.finish(first, last):
                if not ranges.start <= offset < ranges.end:
                    continue
                (at,) = ranges.divide(offset, offset)
                if ranges.state[at] == RecordState.WAITING:
                    ranges.set_state(at, RecordState.AVAILABLE)
                    self._first_available = min(self._first_available, offset)

    # -- acknowledge, release and expiry ---------------------------------------------------------------------

    def acknowledge(
        self, member: str, batches: Iterable[AcknowledgementBatch], now_ms: int
    ) -> StateWrite | None:
        """Change what the member acknowledges, all or nothing; None if there is nothing to persist.

        Raises KafkaError: INVALID_REQUEST for offsets or types that are impossible, INVALID_RECORD_STATE if
        the member does not hold the lock of a record.
        """
        write_id = self._new_write_id()
        changed: list[OffsetRange] = []
        renewed: list[TypeRun] = []
        gaps = 0
        try:
            for batch in batches:
                check_batch(batch, self._ranges.start, self._ranges.end)
                runs = list(runs_of(batch, self._ranges.start))
                if runs:
                    changed.append(OffsetRange(runs[0].first, runs[-1].last))
                    renewed += self._begin_write(member, write_id, runs)
                    gaps += sum(run.last - run.first + 1 for run in runs if run.type is AcknowledgeType.GAP)
        except KafkaError:
            self._revert(write_id, changed)
            self._merge(changed)
            raise
        self._renew(renewed, now_ms)
        self._judge(self._ranges_of(write_id, changed), now_ms, gaps)
        return self._write(write_id, changed)

    def release(self, member: str, now_ms: int) -> StateWrite | None:
        """Release the locks of a member whose share session is closed; None if it holds none."""
        ranges = self._ranges
        write_id = self._new_write_id()
        changed: list[OffsetRange] = []
        for at, owner in enumerate(ranges.owner):
            if owner == member and ranges.write[at] == NO_WRITE:
                ranges.write[at] = write_id
                ranges.target[at] = self._limited(at, RecordState.AVAILABLE)
                changed.append(OffsetRange(ranges.first[at], ranges.last(at)))
        self._judge(self._ranges_of(write_id, changed), now_ms)
        return self._write(write_id, changed)

    def archive(self, batches: Iterable[OffsetRange]) -> StateWrite | None:
        """Archive undeliverable records after their copy; None if the log has deleted them meanwhile."""
        ranges = self._ranges
        write_id = self._new_write_id()
        changed: list[OffsetRange] = []
        for first, last in batches:
            if last < ranges.start or not len(ranges):
                continue
            for at in ranges.divide(max(first, ranges.start), last):
                if ranges.state[at] == RecordState.ARCHIVING and ranges.write[at] == NO_WRITE:
                    ranges.write[at] = write_id
                    ranges.target[at] = RecordState.ARCHIVED
                    changed.append(OffsetRange(ranges.first[at], ranges.last(at)))
        return self._write(write_id, changed)

    def expire_locks(self, now_ms: int) -> StateWrite | None:
        """Release the locks whose deadline has passed. That does not wait for the write to be persisted.

        Records that waited until now become available, which is not persisted.
        """
        self._breaker.tick(now_ms)
        ranges = self._ranges
        state, write = ranges.state, ranges.write
        expired: list[int] = []
        locks: list[int] = []
        soonest = NO_DEADLINE
        for at, deadline_ms in enumerate(ranges.deadline_ms):
            # If a write is in progress and fails, ``on_written`` sets the timer again.
            if deadline_ms == NO_DEADLINE or write[at] != NO_WRITE:
                continue
            if deadline_ms > now_ms:
                soonest = min(soonest, deadline_ms)
                continue
            expired.append(at)
            if state[at] == RecordState.WAITING:
                ranges.target[at] = RecordState.AVAILABLE
            else:
                ranges.target[at] = self._limited(at, RecordState.AVAILABLE)
                locks.append(at)
        self._deadline_ms = soonest
        if not expired:
            return None
        self._judge(locks, now_ms)
        ranges.complete(expired)
        first, last = ranges.first[expired[0]], ranges.last(expired[-1])
        self._first_available = min(self._first_available, first)
        state_write = None
        if locks:
            write_id = self._new_write_id()
            self._writes[write_id] = []
            state_write = self._state_write(write_id, locks)
        self._back_off(locks, now_ms)
        self._finish(self._finished(locks))
        ranges.merge(first, last)
        return state_write

    def _begin_write(self, member: str, write_id: int, runs: Sequence[TypeRun]) -> list[TypeRun]:
        """Give the records of neighbouring runs their next state; returns the runs whose locks to renew."""
        ranges = self._ranges
        ranges.divide_at([*(run.first for run in runs), runs[-1].last + 1])
        firsts, renewed = ranges.first, []
        begin = ranges.index(runs[0].first)
        for run in runs:
            end = begin + 1
            while end < len(firsts) and firsts[end] <= run.last:
                end += 1
            self._check_locks(member, run, begin, end)
            if run.type is AcknowledgeType.RENEW:
                renewed.append(run)
            else:
                state = self._state_after(run.type)
                for at in range(begin, end):
                    ranges.write[at] = write_id
                    ranges.target[at] = self._limited(at, state)
            begin = end
        return renewed

    def _check_locks(self, member: str, run: TypeRun, begin: int, end: int) -> None:
        ranges = self._ranges
        if run.type is AcknowledgeType.RENEW and not self.settings.allows_renewal:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                "The group does not renew acquisition locks. Set share.renew.acknowledge.enable=true.",
            )
        for at in range(begin, end):
            if ranges.state[at] != RecordState.ACQUIRED or ranges.write[at] != NO_WRITE:
                problem = "it is not acquired; its lock may have expired"
            elif ranges.owner[at] != member:
                problem = "another member has acquired it"
            else:
                continue
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                f"Offset {max(ranges.first[at], run.first)} cannot be acknowledged: {problem}.",
            )

    def _limited(self, at: int, state: RecordState) -> RecordState:
        """A record does not become available after its last delivery."""
        if state is RecordState.AVAILABLE and self._ranges.count[at] >= self.settings.delivery_limit:
            if self._breaker.is_closed:
                return self.settings.undeliverable_state
            # The cause is not the record: keep one delivery for the time when the cause is gone.
            self._ranges.count[at] = self.settings.delivery_limit - 1
        return state

    def _judge(self, decided: Iterable[int], now_ms: int, gaps: int = 0) -> None:
        """Tell the breaker what becomes of acquired records; gaps are no records."""
        if not self.settings.breaker.percent:
            return
        ranges = self._ranges
        sizes = dict.fromkeys(RecordState, 0)
        for at in decided:
            sizes[RecordState(ranges.target[at])] += ranges.last(at) - ranges.first[at] + 1
        failed = sizes[RecordState.ARCHIVED] + sizes[RecordState.ARCHIVING] - gaps
        returned = sizes[RecordState.AVAILABLE]
        self._breaker.finished(sizes[RecordState.ACKNOWLEDGED], failed, returned, now_ms)

    def _state_after(self, kind: AcknowledgeType) -> RecordState:
        """The state of a record after its acknowledgement. RENEW does not change it."""
        if kind is AcknowledgeType.ACCEPT:
            return RecordState.ACKNOWLEDGED
        if kind is AcknowledgeType.RELEASE:
            return RecordState.AVAILABLE
        return self.settings.undeliverable_state if kind is AcknowledgeType.REJECT else RecordState.ARCHIVED

    def _renew(self, runs: Iterable[TypeRun], now_ms: int) -> None:
        ranges = self._ranges
        deadline_ms = now_ms + self.settings.lock_duration_ms
        for run in runs:
            for at in ranges.divide(run.first, run.last):
                ranges.deadline_ms[at] = deadline_ms
            ranges.merge(run.first, run.last)
            self._deadline_ms = min(self._deadline_ms, deadline_ms)

    # -- writes ----------------------------------------------------------------------------------------------

    def _new_write_id(self) -> int:
        self._next_write_id += 1
        return self._next_write_id - 1

    def _write(self, write_id: int, changed: list[OffsetRange]) -> StateWrite | None:
        written = self._ranges_of(write_id, changed)
        if not written:
            self._merge(changed)
            return None
        self._writes[write_id] = changed
        return self._state_write(write_id, written)

    def _state_write(self, write_id: int, written: Sequence[int]) -> StateWrite:
        """The write of these ranges; neighbours of equal state and delivery count become one batch."""
        ranges = self._ranges
        batches: list[StateBatch] = []
        first, last, state, count = -1, -2, -1, -1
        for at in written:
            if ranges.first[at] == last + 1 and ranges.target[at] == state and ranges.count[at] == count:
                last = ranges.last(at)
                continue
            if last >= first:
                batches.append(StateBatch(first, last, state, count))
            first, last = ranges.first[at], ranges.last(at)
            state, count = ranges.target[at], ranges.count[at]
        batches.append(StateBatch(first, last, state, count))
        return StateWrite(write_id, self.start_offset, self.delivery_complete_count, batches)

    def on_written(self, write_id: int, persisted: bool, now_ms: int) -> None:
        """The write is persisted, or it is unknown whether it is.

        After a failure the records are acquired as before, and their locks may have expired meanwhile.
        """
        changed = self._writes.pop(write_id)
        if persisted:
            ranges = self._ranges
            written = self._ranges_of(write_id, changed)
            ranges.complete(written)
            released = next((at for at in written if ranges.state[at] == RecordState.AVAILABLE), None)
            if released is not None:
                self._first_available = min(self._first_available, ranges.first[released])
            self._back_off(written, now_ms)
            self._finish(self._finished(written))
        else:
            self._revert(write_id, changed)
        self._merge(changed)
        self._advance()

    def _merge(self, changed: Sequence[OffsetRange]) -> None:
        if changed:
            highest = max(each.last for each in changed)
            if highest >= self.start_offset:
                self._ranges.merge(min(each.first for each in changed), highest)

    def _revert(self, write_id: int, changed: Iterable[OffsetRange]) -> None:
        ranges = self._ranges
        for at in self._ranges_of(write_id, changed):
            ranges.write[at] = NO_WRITE
            ranges.target[at] = ranges.state[at]
            self._deadline_ms = min(self._deadline_ms, ranges.deadline_ms[at])

    def _ranges_of(self, write_id: int, changed: Iterable[OffsetRange]) -> list[int]:
        """The ranges that a write changes, in order; the start offset may have moved past some of them."""
        ranges = self._ranges
        return [
            at
            for first, last in sorted(changed)
            if last >= ranges.start and len(ranges)
            for at in range(ranges.index(max(first, ranges.start)), ranges.index(last) + 1)
            if ranges.write[at] == write_id
        ]

    # -- the start offset ------------------------------------------------------------------------------------

    def advance_log_start(self, log_start_offset: int) -> None:
        """Forget records that the log has deleted. Acknowledgements of them succeed without effect."""
        if log_start_offset > self.start_offset:
            deleted = OffsetRange(self.start_offset, log_start_offset - 1)
            self._ranges.remove_before(log_start_offset)
            self._finish([deleted])
            self._advance()

    def _advance(self) -> None:
        """Move the start offset past records that need no further delivery."""
        ranges = self._ranges
        count = 0
        while count < len(ranges) and ranges.is_terminal(count):
            count += 1
        if count:
            ranges.remove_before(ranges.first[count] if count < len(ranges) else ranges.end)
            self._key_order.remove_before(ranges.start)


def _loaded(start_offset: int, batches: Sequence[StateBatch]) -> InFlightRanges:
    ranges = InFlightRanges(start_offset)
    for first, last, state, delivery_count in batches:
        if first < ranges.end or last < first:
            raise ValueError(
                f"the persisted offsets {first} to {last} overlap others or precede the start offset"
            )
        if state not in PERSISTED_STATES or delivery_count < 0:
            raise ValueError(
                f"the persisted state of the offsets {first} to {last} is impossible: state {state}, "
                f"delivery count {delivery_count}"
            )
        if first > ranges.end:
            # These were acquired by members of the leader before, which persists no acquisition.
            ranges.append(first - 1, RecordState.AVAILABLE, 0)
        ranges.append(last, RecordState(state), delivery_count)
    return ranges
