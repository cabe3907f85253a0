"""A log compared with a plain list: appends, transactions, rolls, retention, compaction, DeleteRecords,
restarts and crashes, in any order."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ruslo.records.batch import TRANSACTIONAL
from tests.unit.storage.compacting import COMPACTED, LIMITS, Pair, compact, kept_records, keyed, roll
from tests.unit.storage.workbench import Workbench

CONFIG = replace(
    COMPACTED,
    cleanup_policy=("compact", "delete"),
    retention_ms=1_000_000,
    segment_bytes=700,
    delete_retention_ms=50_000,
)
PLAIN, FIRST_TRANSACTIONAL = 5, 100
PAIRS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), st.none() | st.binary(max_size=60)),
    min_size=1,
    max_size=5,
)


class Stored(NamedTuple):
    key: bytes | None
    value: bytes | None
    producer_id: int
    """The producer id of the record's transaction, or -1."""


class LogLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="ruslo-log-life-"))
        self.records: dict[int, Stored] = {}
        self.start = 0
        self.end = 0
        self.checkpoint: int | None = None
        self.sequence = 0
        self.transactions = 0
        self.open: dict[int, int] = {}
        """The producers with an open transaction, and their next sequence."""
        self.aborted: set[int] = set()

    @initialize()
    def begin(self) -> None:
        self.bench = Workbench(self.directory, CONFIG)

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    def note(self, pairs: list[Pair], producer_id: int = -1) -> None:
        for key, value in pairs:
            self.records[self.end] = Stored(key, value, producer_id)
            self.end += 1
        self.bench.commit_all()

    @rule(pairs=PAIRS, codec=st.integers(0, 4), idempotent=st.booleans())
    def append(self, pairs: list[Pair], codec: int, idempotent: bool) -> None:
        producer = (
            {"producer_id": PLAIN, "producer_epoch": 0, "sequence": self.sequence} if idempotent else {}
        )
        self.bench.append(keyed(pairs, codec=codec, timestamp=self.bench.clock.ms, **producer))
        self.sequence += len(pairs) if idempotent else 0
        self.note(pairs)

    @rule(pairs=PAIRS, codec=st.integers(0, 4), joins=st.booleans())
    def append_in_transaction(self, pairs: list[Pair], codec: int, joins: bool) -> None:
        if joins and self.open:
            producer_id = min(self.open)
        else:
            producer_id = FIRST_TRANSACTIONAL + self.transactions
            self.transactions += 1
            self.open[producer_id] = 0
        data = keyed(
            pairs,
            codec=codec,
            timestamp=self.bench.clock.ms,
            producer_id=producer_id,
            producer_epoch=0,
            sequence=self.open[producer_id],
            attributes=TRANSACTIONAL,
        )
        self.bench.append(data)
        self.open[producer_id] += len(pairs)
        self.note(pairs, producer_id)

    @precondition(lambda self: self.open)
    @rule(oldest=st.booleans(), commit=st.booleans())
    def end_transaction(self, oldest: bool, commit: bool) -> None:
        producer_id = min(self.open) if oldest else max(self.open)
        del self.open[producer_id]
        self.bench.end_transaction(producer_id, 1, commit=commit)
        if not commit:
            self.aborted.add(producer_id)
        self.end += 1
        self.bench.commit_all()

    @rule(wait_ms=st.sampled_from([1, 1000, 60_000, 400_000]))
    def wait(self, wait_ms: int) -> None:
        self.bench.clock.ms += wait_ms

    @rule()
    def roll(self) -> None:
        roll(self.bench)

    @rule(memory=st.sampled_from([1, 2_000, 1 << 20]))
    def compact(self, memory: int) -> None:
        done = compact(self.bench, self.checkpoint, LIMITS._replace(memory_bytes=memory))
        if done is not None:
            self.checkpoint = done[0]

    @rule()
    def retention(self) -> None:
        self.bench.log.delete_old_segments(self.bench.clock.ms)
        assert self.bench.log.start_offset >= self.start
        self.start = self.bench.log.start_offset

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start += int((self.end - self.start) * share)
        self.bench.log.delete_records_before(self.start)

    @rule()
    def flush(self) -> None:
        self.bench.log.flush(self.bench.clock.ms)

    @rule()
    def stop_and_start(self) -> None:
        self.bench.reopen(start_offset=self.start)

    @rule(garbage=st.sampled_from([b"", bytes(70), b"\xff" * 30]))
    def crash(self, garbage: bytes) -> None:
        point = self.bench.log.recovery_point
        with open(self.bench.log.active.path_of(".log"), "ab") as file:
            file.write(garbage)
        self.bench.reopen(clean=False, recovery_point=point, start_offset=self.start)
        self.bench.commit_all()

    @invariant()
    def log_equals_the_list(self) -> None:
        log = self.bench.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        stable = min(
            (at for at, stored in self.records.items() if stored.producer_id in self.open), default=self.end
        )
        assert log.last_stable_offset == max(min(stable, self.end), self.start)
        found = {offset: (key, value) for offset, key, value in kept_records(log)}
        assert list(found) == sorted(found)
        for offset, pair in found.items():
            assert self.records[offset][:2] == pair
        clean_end = max(self.checkpoint or 0, self.start) if self.checkpoint is not None else self.start
        live: dict[bytes | None, int] = {}
        for offset, stored in self.records.items():
            if offset >= clean_end:
                assert offset in found
            if stored.producer_id not in self.aborted and stored.producer_id not in self.open:
                live[stored.key] = offset
        for key, offset in live.items():
            if offset >= self.start and self.records[offset].value is not None:
                assert offset in found, f"the last value of {key!r} is lost"
        if self.checkpoint is not None:
            clean = [offset for offset in found if self.start <= offset < self.checkpoint]
            assert not any(self.records[offset].producer_id in self.aborted for offset in clean)
            keys = [self.records[offset].key for offset in clean]
            assert len(keys) == len(set(keys))

    @invariant()
    def readers_find_every_record(self) -> None:
        log = self.bench.log
        for offset, _, _ in kept_records(log)[-40:]:
            if offset >= self.start:
                part = log.read(offset, 1, self.end)
                assert part.slice is not None
                assert part.first_batch_offset <= offset

    @invariant()
    def producer_state_matches(self) -> None:
        entries = self.bench.log.producers.entries
        # Retention may have deleted the batches of the producer; after a restart it is then unknown.
        if PLAIN in entries:
            assert entries[PLAIN].next_sequence == self.sequence
        assert set(self.open) == {pid for _, pid in self.bench.log.producers.open_transactions()}
        for offset, pid in self.bench.log.producers.open_transactions():
            assert self.records[offset].producer_id == pid


LogLife.TestCase.settings = settings(max_examples=120, stateful_step_count=50)
TestLogLife = LogLife.TestCase
