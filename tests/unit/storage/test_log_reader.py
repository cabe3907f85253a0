from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.storage.log import RECENT_BATCHES, Log
from ruslo.storage.log_reader import EMPTY_READ
from tests.unit.storage.compacting import COMPACTED
from tests.unit.storage.workbench import NOW, Workbench, bases_in, batch, records_from

SIZE = len(batch(2))


def read(
    log: Log, offset: int, max_bytes: int = 1 << 20, upper: int | None = None, one: bool = True
) -> list[int]:
    part = log.read(offset, max_bytes, log.end_offset if upper is None else upper, one)
    if part.slice is None:
        return []
    bases = bases_in(part.slice.read())
    assert part.first_batch_offset == bases[0] if bases else True
    return bases


@pytest.fixture(params=["tail", "cold", "sealed", "reopened"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """Ten batches of two records, found in memory, by the index in memory, or on disk."""
    config = LogConfig(index_interval_bytes=3 * SIZE)
    bench = Workbench(tmp_path, config)
    for at in range(10):
        bench.append(batch(2, timestamp=NOW + at * 10, step_ms=1))
    if request.param == "cold":
        bench.log.forget_recent_batches()
    elif request.param == "sealed":
        bench.log.roll(20, NOW)
    elif request.param == "reopened":
        bench.reopen()
    return bench.log


class TestRead:
    @pytest.mark.parametrize("offset", range(20))
    def test_from_every_offset(self, log: Log, offset: int) -> None:
        assert read(log, offset) == list(range(offset - offset % 2, 20, 2))

    @pytest.mark.parametrize("upper", range(20))
    def test_to_every_bound(self, log: Log, upper: int) -> None:
        # A batch that reaches the bound is left out as a whole.
        assert read(log, 0, upper=upper) == list(range(0, upper - upper % 2, 2))

    def test_the_end_is_empty_and_offsets_past_it_are_errors(self, log: Log) -> None:
        assert log.read(20, 100, 20) is EMPTY_READ
        assert log.read(10, 100, 10) is EMPTY_READ
        assert log.read(15, 100, 10) is EMPTY_READ
        for offset in (-1, 21):
            with pytest.raises(KafkaError) as caught:
                log.read(offset, 100, 20)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_max_bytes_may_truncate_any_batch_but_the_first(self, log: Log) -> None:
        part = log.read(4, 2 * SIZE + 5, 20)
        assert part.slice is not None
        assert part.slice.size == 2 * SIZE + 5
        assert bases_in(part.slice.read()) == [4, 6]

    @pytest.mark.parametrize("max_bytes", [0, 1, SIZE - 1])
    def test_first_batch_is_complete_or_absent(self, log: Log, max_bytes: int) -> None:
        assert read(log, 5, max_bytes) == [4]
        assert read(log, 5, max_bytes, one=False) == []
        assert read(log, 18, max_bytes) == [18]

    def test_exactly_one_batch(self, log: Log) -> None:
        assert read(log, 6, SIZE, one=False) == [6]

    def test_the_log_start_offset_may_be_inside_a_batch(self, log: Log) -> None:
        log.advance_high_watermark(20)
        log.delete_records_before(5)
        with pytest.raises(KafkaError):
            log.read(4, 100, 20)
        assert read(log, 5, SIZE) == [4]

    def test_a_slice_outlives_its_segment(self, log: Log) -> None:
        part = log.read(0, 1 << 20, 20)
        log.truncate_fully_and_start_at(50)
        assert part.slice is not None
        assert bases_in(part.slice.read()) == list(range(0, 20, 2))


def test_one_segment_at_a_time(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, LogConfig(segment_bytes=3 * SIZE))
    bench.append_many(7, 2)
    assert read(bench.log, 3) == [2, 4]
    assert read(bench.log, 6) == [6, 8, 10]
    assert read(bench.log, 6, upper=9) == [6]
    assert [offset for offset, _ in records_from(bench.log, 1)] == list(range(1, 14))


def test_gaps_are_skipped(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, COMPACTED)
    bench.log.append_as_is(batch(base_offset=5, leader_epoch=0), NOW)
    bench.log.append_as_is(batch(base_offset=9, leader_epoch=0), NOW)
    bench.log.roll(30, NOW)
    bench.log.append_as_is(batch(base_offset=40, leader_epoch=0), NOW)
    for offset, base in ((0, 5), (6, 9), (10, 40), (35, 40)):
        assert read(bench.log, offset)[0] == base


def test_gaps_among_the_last_batches(tmp_path: Path) -> None:
    """On a follower of a compacted partition a read may start or end in a gap."""
    bench = Workbench(tmp_path)
    for base in (5, 9, 20):
        bench.log.append_as_is(batch(base_offset=base, leader_epoch=0), NOW)
    assert read(bench.log, 5, upper=7) == [5]
    assert read(bench.log, 5, upper=10) == read(bench.log, 5, upper=20) == [5, 9]
    assert read(bench.log, 6) == [9, 20], "a follower gets no batch twice"
    assert read(bench.log, 10) == [20]


def test_more_batches_than_are_kept_in_memory(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)
    count = 2 * RECENT_BATCHES + 10
    bench.append_many(count)
    for offset in range(count):
        assert read(bench.log, offset, 200)[0] == offset
        if offset:
            assert read(bench.log, offset - 1, upper=offset) == [offset - 1]


class TestTimestamps:
    def test_the_first_record_at_or_after(self, log: Log) -> None:
        # Offset 2n has NOW + 10n, offset 2n + 1 one millisecond more.
        for timestamp, offset in (
            (0, 0),
            (NOW, 0),
            (NOW + 1, 1),
            (NOW + 2, 2),
            (NOW + 50, 10),
            (NOW + 91, 19),
        ):
            found = log.offset_for_timestamp(timestamp, 20)
            assert found is not None
            assert found.offset == offset
            assert found.timestamp == NOW + offset // 2 * 10 + offset % 2
            assert found.leader_epoch == 0
        assert log.offset_for_timestamp(NOW + 92, 20) is None

    def test_timestamp_at_or_past_the_bound_is_not_found(self, log: Log) -> None:
        assert log.offset_for_timestamp(NOW + 50, 10) is None
        found = log.offset_for_timestamp(NOW + 50, 11)
        assert found is not None
        assert found.offset == 10

    def test_timestamp_below_the_start_is_not_found(self, log: Log) -> None:
        log.advance_high_watermark(20)
        log.delete_records_before(7)
        found = log.offset_for_timestamp(0, 20)
        assert found is not None
        assert found.offset == 7

    def test_largest_timestamp(self, log: Log) -> None:
        assert log.max_timestamp_offset(20) == (19, NOW + 91, 0)
        assert log.max_timestamp_offset(19) is None

    def test_first_of_several_largest_timestamps(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_bytes=2 * SIZE))
        for timestamp in (NOW, NOW + 9, NOW + 9, NOW + 3, NOW + 9):
            bench.append(batch(2, timestamp=timestamp))
        found = bench.log.max_timestamp_offset(10)
        assert found == (2, NOW + 9, 0)

    def test_timestamps_need_not_ascend(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(index_interval_bytes=0, segment_bytes=3 * SIZE))
        times = [NOW + delta for delta in (5, 1, 9, 2, 8, 7, 30, 1, 31)]
        for timestamp in times:
            bench.append(batch(timestamp=timestamp))
        for expected in range(NOW, NOW + 33):
            found = bench.log.offset_for_timestamp(expected, 9)
            first = next((at for at, timestamp in enumerate(times) if timestamp >= expected), None)
            assert (None if found is None else found.offset) == first

    def test_empty_log(self, tmp_path: Path) -> None:
        log = Workbench(tmp_path).log
        assert log.max_timestamp_offset(0) is None
        assert log.offset_for_timestamp(0, 0) is None


class TestAbortedTransactions:
    def test_only_transactions_in_the_range(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_bytes=400))
        for epoch in range(12):
            bench.append_transactional(1, epoch, 0)
            bench.end_transaction(1, epoch + 1, commit=epoch % 3 == 0)
        bench.commit_all()
        assert len(bench.log.segments) > 3
        expected = [(1, 2 * at, 2 * at + 1, 2 * at + 2) for at in range(12) if at % 3]
        assert bench.log.aborted_transactions(0, 24) == expected
        assert bench.log.aborted_transactions(9, 24) == [entry for entry in expected if entry[2] >= 9]
        assert bench.log.aborted_transactions(0, 10) == [entry for entry in expected if entry[1] < 10]
        bench.reopen()
        assert bench.log.aborted_transactions(0, 24) == expected

    def test_the_end_of_a_read_bounds_the_search(self, log: Log) -> None:
        whole = log.read(0, 1 << 20, 20)
        assert log.end_of_read(whole) == 20
        # The index has entries at offsets 9 and 17.
        assert log.end_of_read(log.read(0, SIZE, 20)) == 9
        assert log.end_of_read(EMPTY_READ) == 20
