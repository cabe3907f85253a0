"""A model of a share-partition: hypothesis chooses what happens, and every step is checked.

The model knows for every offset who holds it and what was decided, one offset at a time. The persisted state
is a dict of offsets. Writes are persisted in order; one that fails may still have been persisted.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.states import AcknowledgeType, AcquireMode, RecordState
from ruslo.machines.share_partition.values import (
    AcknowledgementBatch,
    AcquireLimits,
    DeliveryRule,
    FetchedBatches,
    OffsetRange,
    ShareSettings,
    StateBatch,
    StateWrite,
)
from ruslo.model.errors import KafkaError

ACCEPTED_ONCE = "an accepted record is never delivered again"
DELIVERY_LIMIT = "no delivery count is above the limit, and each delivery adds one"
START_INCREASES = "the start offset never decreases"
NOTHING_LOST = "the start offset passes only records that need no further delivery"
ONE_OWNER = "a locked record is not delivered to another member"
EVERY_RECORD_DELIVERED = "every record is delivered until it is accepted, rejected or at its limit"
LOCKS_ARE_KNOWN = "exactly the holder of an unexpired lock can acknowledge"
ORDER_OF_KEYS = "a record is delivered when every earlier record of its key is finished"
NOT_TOO_EARLY = "a record is not delivered before its time, nor during its backoff"
COPIED_FIRST = "the start offset passes an undeliverable record when it is copied"
COUNT_IS_RIGHT = "the delivery-complete count is the number of finished records in flight"

LOCK_MS = 100
KEYS = 4
MEMBERS = ("m0", "m1")
TYPES = st.lists(
    st.sampled_from([*AcknowledgeType, AcknowledgeType.RELEASE, AcknowledgeType.RELEASE]),
    min_size=1,
    max_size=6,
)


class InvariantBrokenError(AssertionError):
    pass


@dataclass
class Lock:
    member: str
    deadline_ms: int
    write_id: int = 0


class SharePartitionModel(RuleBasedStateMachine):
    @initialize(
        limit=st.integers(2, 8),
        locks=st.integers(4, 40),
        dead_letters=st.booleans(),
        backoff_ms=st.sampled_from([0, 0, 30]),
        ordered=st.booleans(),
    )
    def start(self, limit: int, locks: int, dead_letters: bool, backoff_ms: int, ordered: bool) -> None:
        self.settings = ShareSettings(
            max_record_locks=locks,
            delivery_limit=limit,
            lock_duration_ms=LOCK_MS,
            has_dead_letters=dead_letters,
            retry_backoff_ms=backoff_ms,
            retry_backoff_max_ms=4 * backoff_ms,
        )
        self.is_ordered = ordered
        self.not_before: dict[int, int] = {}
        """When delayed records may be delivered."""
        self.backoff_end: dict[int, int] = {}
        """When this leader may deliver released records again."""
        self.uncopied: set[int] = set()
        """Undeliverable records that are not known to be in the dead-letter topic."""
        self.now = 0
        self.log: list[OffsetRange] = []
        self.log_end = 0
        self.aborted: list[OffsetRange] = []
        self.finished: set[int] = set()
        """Offsets that need no delivery: accepted, rejected, at the limit, aborted, compacted or deleted."""
        self.accepted: set[int] = set()
        self.counts: dict[int, int] = {}
        """Deliveries of each record, as far as this leader can know."""
        self.locks: dict[int, Lock] = {}
        self.writes: dict[int, tuple[StateWrite, dict[int, RecordState]]] = {}
        self.persisted: dict[int, tuple[int, int]] = {}
        self.persisted_start = 0
        self.start_seen = 0
        self.partition = SharePartition(self.settings, 0)
        self.has_failed = False

    def demand(self, holds: bool, invariant_name: str, detail: str = "") -> None:
        if not holds:
            self.has_failed = True
            raise InvariantBrokenError(f"{invariant_name}: {detail}")

    # -- the log ---------------------------------------------------------------------------------------------

    @rule(
        sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
        gap=st.integers(0, 2),
        abort=st.booleans(),
        delay_ms=st.sampled_from([0, 0, 0, 150]),
    )
    def produce(self, sizes: list[int], gap: int, abort: bool, delay_ms: int) -> None:
        for size in sizes:
            for offset in range(self.log_end, self.log_end + gap):
                self.finished.add(offset)
            first = self.log_end + gap
            batch = OffsetRange(first, first + size - 1)
            self.log.append(batch)
            self.log_end = batch.last + 1
            if abort:
                self.aborted.append(batch)
                self.finished.update(range(batch.first, batch.last + 1))
            if delay_ms:
                self.not_before[batch.last] = self.now + delay_ms
            gap, abort = 0, False

    @precondition(lambda self: len(self.log) > 5)
    @rule()
    def delete_first_batch(self) -> None:
        batch = self.log.pop(0)
        self.finished.update(range(batch.last + 1))
        self.partition.advance_log_start(batch.last + 1)
        self.uncopied -= set(range(batch.last + 1))
        for offset in [each for each in self.locks if each <= batch.last]:
            del self.locks[offset]

    # -- members ---------------------------------------------------------------------------------------------

    @rule(
        member=st.sampled_from(MEMBERS),
        max_records=st.integers(1, 30),
        batch_size=st.integers(1, 10),
        mode=st.sampled_from(AcquireMode),
        batches=st.integers(1, 5),
    )
    def fetch(self, member: str, max_records: int, batch_size: int, mode: AcquireMode, batches: int) -> None:
        if not self.partition.can_acquire():
            return
        at = self.partition.next_fetch_offset()
        found = [each for each in self.log if each.last >= at][:batches]
        aborted = [each for each in self.aborted if each in found]
        acquired = self.partition.acquire(
            member,
            AcquireLimits(max_records, batch_size, mode),
            FetchedBatches(at, found, aborted, self._rules(found)),
            self.now,
        )
        total = 0
        for first, last, delivery_count in acquired:
            for offset in range(first, last + 1):
                self.demand(offset not in self.accepted, ACCEPTED_ONCE, str(offset))
                lock = self.locks.get(offset)
                self.demand(lock is None, ONE_OWNER, f"{offset} is held by {lock}")
                count = self.counts.get(offset, 0) + 1
                self.demand(
                    delivery_count == count <= self.settings.delivery_limit,
                    DELIVERY_LIMIT,
                    f"{offset}: {delivery_count}, expected {count}",
                )
                self._check_time_and_order(offset)
                self.counts[offset] = count
                self.locks[offset] = Lock(member, self.now + LOCK_MS)
                total += 1
        if mode is AcquireMode.RECORD_LIMIT:
            self.demand(total <= max_records, "the record limit is strict", f"{total} of {max_records}")

    def _rules(self, batches: list[OffsetRange]) -> list[DeliveryRule]:
        delays = self.not_before
        return [
            DeliveryRule(offset, offset % KEYS if self.is_ordered else None, delays.get(offset, 0))
            for first, last in batches
            for offset in range(first, last + 1)
            if self.is_ordered or offset in delays
        ]

    def _check_time_and_order(self, offset: int) -> None:
        time_ms = max(self.not_before.get(offset, 0), self.backoff_end.get(offset, 0))
        self.demand(time_ms <= self.now, NOT_TOO_EARLY, f"{offset} at {self.now}, not before {time_ms}")
        is_gap = offset in self.finished
        if self.is_ordered and not is_gap:
            earlier = range(offset % KEYS, offset, KEYS)
            open_ones = [each for each in earlier if each not in self.finished]
            self.demand(not open_ones, ORDER_OF_KEYS, f"{offset} before {open_ones}")

    @precondition(lambda self: self.locks)
    @rule(data=st.data(), types=TYPES)
    def acknowledge_held(self, data: st.DataObject, types: list[AcknowledgeType]) -> None:
        first = data.draw(st.sampled_from(sorted(self.locks)))
        lock = self.locks[first]
        most = 1
        while (other := self.locks.get(first + most)) is not None and other.member == lock.member:
            most += 1
        self._acknowledge(lock.member, first, data.draw(st.integers(1, most)), types)

    @precondition(lambda self: self.partition.in_flight)
    @rule(data=st.data(), member=st.sampled_from(MEMBERS), types=TYPES)
    def acknowledge_anything(self, data: st.DataObject, member: str, types: list[AcknowledgeType]) -> None:
        first = data.draw(st.integers(self.partition.start_offset, self.partition.end_offset - 1))
        size = data.draw(st.integers(1, min(self.partition.end_offset - first, 4)))
        self._acknowledge(member, first, size, types)

    def _acknowledge(self, member: str, first: int, size: int, types: list[AcknowledgeType]) -> None:
        chosen = [types[at % len(types)] for at in range(size)] if len(types) > 1 else types
        batch = AcknowledgementBatch(first, first + size - 1, chosen)
        offsets = range(first, first + size)
        held = all(
            offset in self.locks and self.locks[offset].member == member and not self.locks[offset].write_id
            for offset in offsets
        )
        try:
            write = self.partition.acknowledge(member, [batch], self.now)
        except KafkaError as error:
            self.demand(not held, LOCKS_ARE_KNOWN, f"{member} {batch} {error}")
            return
        self.demand(held, LOCKS_ARE_KNOWN, f"{member} {batch} was accepted")
        decided: dict[int, RecordState] = {}
        for at, offset in enumerate(offsets):
            kind = chosen[at] if len(chosen) > 1 else chosen[0]
            if kind is AcknowledgeType.RENEW:
                self.locks[offset].deadline_ms = self.now + LOCK_MS
            elif kind is AcknowledgeType.ACCEPT:
                decided[offset] = RecordState.ACKNOWLEDGED
            elif kind is AcknowledgeType.RELEASE:
                decided[offset] = self._released(offset)
            elif kind is AcknowledgeType.REJECT:
                decided[offset] = self.settings.undeliverable_state
            else:
                decided[offset] = RecordState.ARCHIVED
        self._begin(write, decided)

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        write = self.partition.release(member, self.now)
        self._begin(
            write,
            {
                offset: self._released(offset)
                for offset, lock in self.locks.items()
                if lock.member == member and not lock.write_id
            },
        )

    @rule(elapsed_ms=st.integers(1, LOCK_MS))
    def wait(self, elapsed_ms: int) -> None:
        self.now += elapsed_ms
        expired = {
            offset: self._released(offset)
            for offset, lock in self.locks.items()
            if lock.deadline_ms <= self.now and not lock.write_id
        }
        deadline_ms = self.partition.deadline_ms()
        if deadline_ms is None or deadline_ms > self.now:
            self.demand(not expired, "locks expire at their deadline", str(expired))
            return
        write = self.partition.expire_locks(self.now)
        self.demand((write is not None) == bool(expired), "locks expire at their deadline", str(expired))
        if write is not None:
            self.demand(_states(write) == expired, "locks expire at their deadline", f"{write} {expired}")
            self._decide(expired)
            self.writes[write.write_id] = write, {}

    def _released(self, offset: int) -> RecordState:
        is_last = self.counts[offset] >= self.settings.delivery_limit
        return self.settings.undeliverable_state if is_last else RecordState.AVAILABLE

    # -- dead letters ----------------------------------------------------------------------------------------

    @precondition(lambda self: self.partition.undeliverable())
    @rule(count=st.integers(1, 3))
    def copy_dead_letters(self, count: int) -> None:
        batches = [OffsetRange(first, last) for first, last, _, _ in self.partition.undeliverable()[:count]]
        write = self.partition.archive(batches)
        self.demand(write is not None, "undeliverable records can be archived")
        assert write is not None
        copied = _states(write)
        self.demand(copied.keys() <= self.uncopied, "delivered records are not dead letters", str(write))
        self.writes[write.write_id] = write, copied

    # -- writes and failover ---------------------------------------------------------------------------------

    def _begin(self, write: StateWrite | None, decided: dict[int, RecordState]) -> None:
        self.demand((write is not None) == bool(decided), "decisions are persisted", str(decided))
        if write is not None:
            self.demand(_states(write) == decided, "decisions are persisted", f"{write} {decided}")
            for offset in decided:
                self.locks[offset].write_id = write.write_id
            self.writes[write.write_id] = write, decided

    def _decide(self, decided: dict[int, RecordState]) -> None:
        for offset, state in decided.items():
            self.locks.pop(offset, None)
            if state is RecordState.AVAILABLE:
                self.backoff_end[offset] = self.now + self.settings.backoff_ms(self.counts[offset])
            else:
                self.finished.add(offset)
            is_deleted = offset < (self.log[0].first if self.log else self.log_end)
            if state is RecordState.ARCHIVING and not is_deleted:
                self.uncopied.add(offset)
            elif state is RecordState.ARCHIVED:
                self.uncopied.discard(offset)
            if state is RecordState.ACKNOWLEDGED:
                self.accepted.add(offset)

    def _persist(self, write: StateWrite) -> None:
        for first, last, state, count in write.batches:
            for offset in range(first, last + 1):
                self.persisted[offset] = (state, count)
        self.persisted_start = max(self.persisted_start, write.start_offset)

    @precondition(lambda self: self.writes)
    @rule(succeeds=st.booleans(), reaches_log=st.booleans())
    def complete_write(self, succeeds: bool, reaches_log: bool) -> None:
        write_id = min(self.writes)
        write, decided = self.writes.pop(write_id)
        if succeeds or reaches_log:
            self._persist(write)
        self.partition.on_written(write_id, succeeds, self.now)
        if succeeds:
            self._decide(decided)
            return
        for offset in decided:
            if offset in self.locks:
                self.locks[offset].write_id = 0

    @rule()
    def fail_over(self) -> None:
        """Another broker becomes the leader. Acquisitions are not persisted: their records are available."""
        start = self.persisted_start
        batches = [
            StateBatch(offset, offset, *state)
            for offset, state in sorted(self.persisted.items())
            if offset >= start
        ]
        self.partition = SharePartition(self.settings, start, batches)
        self.partition.advance_log_start(self.log[0].first if self.log else self.log_end)
        self.writes.clear()
        self.locks.clear()
        self.backoff_end.clear()
        self.counts = {offset: count for offset, (_, count) in self.persisted.items()}
        self.uncopied.clear()
        for offset, (state, _) in self.persisted.items():
            if state == RecordState.ARCHIVING and offset >= self.partition.start_offset:
                self.uncopied.add(offset)
            # A write that seemed to fail may have been persisted.
            if state != RecordState.AVAILABLE:
                self.finished.add(offset)
            elif offset not in self.accepted and not self._is_skipped(offset):
                self.finished.discard(offset)
        for offset in range(self.log_end):
            if offset not in self.persisted and not self._is_skipped(offset) and offset >= start:
                self.finished.discard(offset)
        self.start_seen = min(self.start_seen, self.partition.start_offset)

    def _is_skipped(self, offset: int) -> bool:
        """Whether the log has no record at the offset that may be delivered."""
        here = any(first <= offset <= last for first, last in self.log)
        return not here or any(first <= offset <= last for first, last in self.aborted)

    # -- invariants ------------------------------------------------------------------------------------------

    @invariant()
    def start_offset_is_right(self) -> None:
        start = self.partition.start_offset
        self.demand(start >= self.start_seen, START_INCREASES, f"{start} after {self.start_seen}")
        lost = [offset for offset in range(self.start_seen, start) if offset not in self.finished]
        self.demand(not lost, NOTHING_LOST, str(lost))
        uncopied = [offset for offset in self.uncopied if offset < start]
        self.demand(not uncopied, COPIED_FIRST, str(uncopied))
        self.start_seen = start

    @invariant()
    def count_is_right(self) -> None:
        pending = {
            offset
            for _, decided in self.writes.values()
            for offset, state in decided.items()
            if state is not RecordState.AVAILABLE
        }
        count = self.partition.delivery_complete_count
        window = range(self.partition.start_offset, self.partition.end_offset)
        least = sum(
            1
            for offset in window
            if offset in pending or (offset in self.accepted and offset not in self.locks)
        )
        most = sum(1 for offset in window if offset in self.finished or offset in pending)
        self.demand(least <= count <= most, COUNT_IS_RIGHT, f"{count}, expected {least} to {most}")

    def teardown(self) -> None:
        """Accept everything that is left: nothing may stay undelivered."""
        if not hasattr(self, "partition") or self.has_failed:
            return
        self.wait(2 * LOCK_MS)
        while self.writes:
            self.complete_write(True, True)
        for _ in range(2 * self.log_end + 2):
            self.wait(2 * LOCK_MS)
            self.fetch("m0", 30, 5, AcquireMode.BATCH_OPTIMIZED, 5)
            for offset in sorted(self.locks):
                self._acknowledge("m0", offset, 1, [AcknowledgeType.ACCEPT])
                self.complete_write(True, True)
            while self.partition.undeliverable():
                self.copy_dead_letters(3)
                self.complete_write(True, True)
        self.start_offset_is_right()
        left = [offset for first, last in self.log for offset in range(first, last + 1)]
        left = [offset for offset in left if offset not in self.finished]
        self.demand(not left, EVERY_RECORD_DELIVERED, str(left))
        self.demand(
            self.partition.in_flight == 0, EVERY_RECORD_DELIVERED, f"{self.partition.in_flight} in flight"
        )


def _states(write: StateWrite) -> dict[int, RecordState]:
    return {
        offset: RecordState(state)
        for first, last, state, _ in write.batches
        for offset in range(first, last + 1)
    }
