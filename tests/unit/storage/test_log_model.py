"""A log compared with a list: random operations, restarts and crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ruslo.config.log_config import LogConfig
from tests.unit.storage.workbench import NOW, Workbench, bases_in, batch

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, retention_ms=-1)
PRODUCER = 5


class Stored(NamedTuple):
    base: int
    last: int
    timestamp: int
    sequence: int
    """The sequence of the last record; -1 without a producer."""


class LogModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="ruslo-log-model-"))
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0

    @initialize()
    def begin(self) -> None:
        self.bench = Workbench(self.directory, CONFIG)

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @property
    def next_sequence(self) -> int:
        return max((stored.sequence for stored in self.batches), default=-1) + 1

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 120),
        delay=st.integers(-5, 5),
        idempotent=st.booleans(),
    )
    def append(self, count: int, size: int, delay: int, idempotent: bool) -> None:
        timestamp = NOW + 10 * self.end + delay
        sequence = self.next_sequence if idempotent else -1
        data = batch(
            count,
            value=bytes(size),
            timestamp=timestamp,
            producer_id=PRODUCER if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            sequence=sequence,
        )
        result = self.bench.append(data, leader_epoch=self.end // 20)
        assert (result.base_offset, result.last_offset) == (self.end, self.end + count - 1)
        last_sequence = sequence + count - 1 if idempotent else -1
        self.batches.append(Stored(self.end, self.end + count - 1, timestamp, last_sequence))
        self.end += count
        self.bench.commit_all()

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        target = max(self.end - back, self.start)
        while self.batches and self.batches[-1].last >= target:
            self.end = self.batches.pop().base
        self.bench.log.truncate_to(target)
        self.start = min(self.start, self.end)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start += int((self.end - self.start) * share)
        self.bench.log.delete_records_before(self.start)

    @rule()
    def retention(self) -> None:
        self.bench.log.delete_old_segments(NOW)

    @rule()
    def flush(self) -> None:
        self.bench.log.flush(NOW)

    @rule()
    def stop_and_start(self) -> None:
        self.bench.reopen(start_offset=self.start)

    @rule(
        garbage=st.sampled_from([b"", bytes(61), b"\xff" * 30, bytes(batch(2))[:-3]]), flushed=st.booleans()
    )
    def crash(self, garbage: bytes, flushed: bool) -> None:
        if flushed:
            self.bench.log.flush(NOW)
        point = self.bench.log.recovery_point
        with open(self.bench.log.active.stem + ".log", "ab") as file:
            file.write(garbage)
        self.bench.reopen(clean=False, recovery_point=point, start_offset=self.start)
        self.bench.commit_all()

    @invariant()
    def log_equals_the_list(self) -> None:
        log = self.bench.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        sequence = log.producers.entries[PRODUCER].next_sequence if PRODUCER in log.producers.entries else 0
        assert sequence == self.next_sequence
        visible = [stored for stored in self.batches if stored.last >= self.start]
        for stored in visible:
            for offset in {max(stored.base, self.start), stored.last}:
                part = log.read(offset, 1, self.end)
                assert part.slice is not None
                assert bases_in(part.slice.read()) == [stored.base]
            found = log.offset_for_timestamp(stored.timestamp, self.end)
            first = next(other for other in visible if other.timestamp >= stored.timestamp)
            assert found is not None
            assert found.offset == max(first.base, self.start)
            bounded = log.read(max(visible[0].base, self.start), 1 << 20, stored.last + 1)
            assert bounded.slice is not None
            assert bases_in(bounded.slice.read())[-1] <= stored.base


LogModel.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestLogModel = LogModel.TestCase
