from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import HEADER, LOG_APPEND_TIME, read_header
from ruslo.records.reader import check_crc
from ruslo.storage.disk import DiskError
from ruslo.storage.segment import LOG_SUFFIX
from tests.unit.storage.test_disk import largest_file
from tests.unit.storage.workbench import NOW, Workbench, bases_in, batch, records_from

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


class TestAppend:
    def test_offset_and_epoch_are_patched_in_place(self, bench: Workbench) -> None:
        first = batch(3)
        assert bench.append(first, leader_epoch=4) == (0, 2, -1, False)
        second = batch(2)
        assert bench.append(second, leader_epoch=4) == (3, 4, -1, False)
        header = read_header(second)
        assert (header.base_offset, header.leader_epoch) == (3, 4)
        assert check_crc(second)
        assert bench.content("00000000000000000000.log") == bytes(first + second)
        assert bench.log.end_offset == 5

    def test_log_append_time_is_returned(self, bench: Workbench) -> None:
        result = bench.append(batch(timestamp=NOW + 5, attributes=LOG_APPEND_TIME))
        assert result.log_append_time_ms == NOW + 5

    def test_epochs_are_cached(self, bench: Workbench) -> None:
        for epoch in (0, 0, 2):
            bench.append(batch(2), leader_epoch=epoch)
        assert bench.log.epochs.entries() == [(0, 0), (2, 4)]
        bench.log.assign_leader_epoch(5)
        assert bench.log.end_offset_for_epoch(2) == (2, 6)
        assert bench.log.end_offset_for_epoch(5) == (5, 6)

    def test_a_duplicate_gets_its_old_offset_and_is_not_written(self, bench: Workbench) -> None:
        bench.append(batch(producer_id=1, producer_epoch=0, sequence=0, timestamp=NOW - 7))
        bench.append(batch())
        size = bench.log.size_bytes
        again = bench.append(batch(producer_id=1, producer_epoch=0, sequence=0, timestamp=NOW - 7))
        assert again == (0, 0, NOW - 7, True)
        assert bench.log.size_bytes == size
        assert bench.log.end_offset == 2

    def test_a_rejected_batch_changes_nothing(self, bench: Workbench) -> None:
        bench.append(batch(producer_id=1, producer_epoch=0, sequence=0))
        data = batch(producer_id=1, producer_epoch=0, sequence=5)
        before = bytes(data)
        with pytest.raises(KafkaError) as caught:
            bench.append(data)
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert bytes(data) == before
        assert bench.log.end_offset == 1

    def test_five_in_flight_and_their_retries(self, bench: Workbench) -> None:
        sent = [batch(producer_id=1, producer_epoch=0, sequence=at) for at in range(5)]
        first = [bench.append(data) for data in sent]
        retried = [bench.append(data) for data in sent]
        assert [result.base_offset for result in retried] == [result.base_offset for result in first]
        assert all(result.duplicate for result in retried)


class TestFailedWrites:
    def test_full_disk_leaves_the_log_unchanged(self, bench: Workbench) -> None:
        bench.append(batch(producer_id=1, producer_epoch=0, sequence=0))
        size = bench.log.size_bytes
        big = batch(value=bytes(5000), producer_id=1, producer_epoch=0, sequence=1)
        with largest_file(size + 1000), pytest.raises(DiskError) as failed:
            bench.append(big)
        assert failed.value.disk_full
        assert not failed.value.fatal
        assert len(bench.content("00000000000000000000.log")) == size
        # With free space the same batch is appended at the same offset.
        assert bench.append(big).base_offset == 1
        bench.reopen(clean=False)
        assert [offset for offset, _ in records_from(bench.log)] == [0, 1]

    def test_a_torn_tail_that_cannot_be_truncated_is_fatal(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.append(batch())

        def stuck(file: object, size: int) -> None:
            raise DiskError(bench.directory, "f", "truncate", OSError(5, "Input/output error"))

        monkeypatch.setattr(type(bench.log.active.file), "truncate", stuck)
        with largest_file(bench.log.size_bytes + 10), pytest.raises(DiskError) as failed:
            bench.append(batch())
        assert failed.value.fatal

    def test_a_roll_that_fails_on_a_full_disk_can_be_retried(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, SMALL)
        while bench.log.size_bytes < 900:
            bench.append(batch(value=bytes(100)))
        end = bench.log.end_offset
        with largest_file(0), pytest.raises(DiskError) as failed:
            bench.append(batch(value=bytes(200)))
        assert not failed.value.fatal
        assert bench.append(batch(value=bytes(200))).base_offset == end
        assert len(bench.log.segments) == 2
        assert [offset for offset, _ in records_from(bench.log)] == list(range(end + 1))

    def test_an_offline_log_raises(self, bench: Workbench) -> None:
        bench.append(batch())
        bench.log.fail(DiskError(bench.directory, "f", "sync", OSError(5, "Input/output error")))
        attempts: list[Callable[[], object]] = [
            lambda: bench.append(batch()),
            lambda: bench.log.append_as_is(batch(base_offset=1), NOW),
            lambda: bench.log.read(0, 100, 1),
            lambda: bench.log.offset_for_timestamp(NOW, 1),
            lambda: bench.log.max_timestamp_offset(1),
            lambda: bench.log.aborted_transactions(0, 1),
            lambda: bench.log.truncate_to(0),
            lambda: bench.log.truncate_fully_and_start_at(9),
            lambda: bench.log.delete_records_before(0),
        ]
        for attempt in attempts:
            with pytest.raises(KafkaError) as caught:
                attempt()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert bench.log.delete_old_segments(NOW + 10**12) == 0
        bench.log.close(NOW)
        assert "00000000000000000000.timeindex" not in bench.names()


class TestRoll:
    def bases(self, bench: Workbench) -> list[int]:
        return [segment.base_offset for segment in bench.log.segments]

    def test_by_size(self, tmp_path: Path) -> None:
        size = len(batch(2))
        bench = Workbench(tmp_path, LogConfig(segment_bytes=3 * size))
        bench.append_many(7, 2)
        assert self.bases(bench) == [0, 6, 12]
        assert bench.names() == {
            "partition.metadata",
            "00000000000000000000.log",
            "00000000000000000000.index",
            "00000000000000000000.timeindex",
            "00000000000000000006.log",
            "00000000000000000006.index",
            "00000000000000000006.timeindex",
            "00000000000000000006.snapshot",
            "00000000000000000012.log",
            "00000000000000000012.snapshot",
        }

    def test_by_time_between_batches(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_ms=1000))
        bench.append(batch(timestamp=NOW))
        bench.append(batch(timestamp=NOW + 1000))
        assert self.bases(bench) == [0]
        bench.append(batch(timestamp=NOW + 1001))
        assert self.bases(bench) == [0, 2]

    def test_an_idle_segment_is_not_rolled_by_the_clock(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_ms=1000))
        bench.append(batch(timestamp=NOW))
        bench.clock.ms += 60_000
        bench.append(batch(timestamp=NOW))
        assert self.bases(bench) == [0]

    def test_without_timestamps_by_the_clock(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_ms=1000))
        bench.append(batch(timestamp=-1))
        bench.clock.ms += 1001
        bench.append(batch(timestamp=-1))
        assert self.bases(bench) == [0, 1]

    def test_a_compacted_topic_rolls_by_its_maximum_lag(self, tmp_path: Path) -> None:
        config = LogConfig(cleanup_policy=("compact",), max_compaction_lag_ms=500)
        bench = Workbench(tmp_path, config)
        bench.append(batch(timestamp=NOW))
        bench.append(batch(timestamp=NOW + 501))
        assert self.bases(bench) == [0, 1]

    def test_when_an_index_is_full(self, tmp_path: Path) -> None:
        # Space for two time index entries, the last of which is reserved for the roll.
        bench = Workbench(tmp_path, LogConfig(segment_index_bytes=36, index_interval_bytes=0))
        for at in range(8):
            bench.append(batch(timestamp=NOW + at))
        assert self.bases(bench) == [0, 3, 6]
        times = bench.content("00000000000000000000.timeindex")
        assert [entry[1] for entry in struct.iter_unpack(">qI", times)] == [1, 2]

    def test_when_offsets_are_too_far_apart(self, bench: Workbench) -> None:
        bench.log.append_as_is(batch(base_offset=5, leader_epoch=0), NOW)
        bench.log.append_as_is(batch(base_offset=2**31 - 1, leader_epoch=0), NOW)
        bench.log.append_as_is(batch(base_offset=2**31, leader_epoch=0), NOW)
        assert self.bases(bench) == [0, 2**31]
        assert [offset for offset, _ in records_from(bench.log)] == [5, 2**31 - 1, 2**31]

    def test_jitter_rolls_earlier_never_later(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_ms=1000, segment_jitter_ms=400))
        bench.append(batch(timestamp=NOW))
        assert NOW + 600 <= bench.log.limits.timestamp <= NOW + 1000

    def test_a_new_config_takes_effect_at_once(self, bench: Workbench) -> None:
        bench.append_many(2)
        bench.log.configure(replace(bench.config, segment_bytes=100))
        bench.append(batch())
        assert self.bases(bench) == [0, 2]


class TestIndexes:
    def test_entries_after_each_interval_and_a_last_time_entry(self, tmp_path: Path) -> None:
        size = len(batch())
        bench = Workbench(tmp_path, LogConfig(index_interval_bytes=2 * size))
        for at in range(9):
            bench.append(batch(timestamp=NOW + at))
        bench.log.close(NOW)
        offsets = list(struct.iter_unpack(">II", bench.content("00000000000000000000.index")))
        # The counter must exceed two batches: the fourth, and then every third.
        assert offsets == [(3, 3 * size), (6, 6 * size)]
        times = list(struct.iter_unpack(">qI", bench.content("00000000000000000000.timeindex")))
        assert times == [(NOW + 3, 3), (NOW + 6, 6), (NOW + 8, 8)]

    def test_falling_timestamps_keep_the_largest(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(index_interval_bytes=0))
        for timestamp in (NOW, NOW + 50, NOW + 20, NOW + 60):
            bench.append(batch(timestamp=timestamp))
        bench.log.close(NOW)
        times = list(struct.iter_unpack(">qI", bench.content("00000000000000000000.timeindex")))
        assert times == [(NOW + 50, 1), (NOW + 60, 3)]

    def test_no_timestamps_no_entries(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(index_interval_bytes=0))
        for _ in range(3):
            bench.append(batch(timestamp=-1))
        bench.log.close(NOW)
        assert bench.content("00000000000000000000.timeindex") == b""


class TestVerbatim:
    def test_many_batches_in_one_append(self, bench: Workbench) -> None:
        data = b"".join(batch(2, base_offset=2 * at, leader_epoch=at // 2) for at in range(6))
        assert bench.log.append_as_is(data, NOW) == 12
        assert bench.content("00000000000000000000.log") == data
        assert bench.log.epochs.entries() == [(0, 0), (1, 4), (2, 8)]

    def test_batches_are_spread_over_segments(self, tmp_path: Path) -> None:
        size = len(batch())
        bench = Workbench(tmp_path, LogConfig(segment_bytes=2 * size))
        bench.log.append_as_is(b"".join(batch(base_offset=at, leader_epoch=0) for at in range(5)), NOW)
        assert [segment.base_offset for segment in bench.log.segments] == [0, 2, 4]
        assert [segment.size for segment in bench.log.segments] == [2 * size, 2 * size, size]

    def test_gaps_are_kept(self, bench: Workbench) -> None:
        bench.log.append_as_is(batch(base_offset=7, leader_epoch=0), NOW)
        bench.log.append_as_is(batch(base_offset=20, leader_epoch=0), NOW)
        assert bench.log.end_offset == 21
        assert [offset for offset, _ in records_from(bench.log)] == [7, 20]

    def test_a_follower_stops_at_a_later_epoch(self, bench: Workbench) -> None:
        data = batch(base_offset=0, leader_epoch=3) + batch(base_offset=1, leader_epoch=4)
        assert bench.log.append_follower(data, 3, NOW) == 1
        assert bench.log.append_follower(data[len(data) // 2 :], 4, NOW) == 2

    @pytest.mark.parametrize("start", [11, 12])
    def test_a_follower_starts_inside_a_batch(self, bench: Workbench, start: int) -> None:
        """DeleteRecords may leave the leader's log start offset inside a batch (KAFKA-6975)."""
        bench.log.truncate_fully_and_start_at(start)
        data = batch(3, base_offset=10, leader_epoch=3) + batch(base_offset=13, leader_epoch=4)
        assert bench.log.append_follower(data, 4, NOW) == 14
        assert (bench.log.start_offset, bench.log.high_watermark) == (start, start)
        assert bench.log.epochs.entries() == [(3, start), (4, 13)]
        assert bench.content("00000000000000000010.log") == data
        with pytest.raises(KafkaError, match="has offsets"):
            bench.log.read(start - 1, 1, 14)

    @pytest.mark.parametrize("base_offset", [7, 8, 9])
    def test_a_follower_rejects_a_batch_below_its_log_start_offset(
        self, bench: Workbench, base_offset: int
    ) -> None:
        bench.log.truncate_fully_and_start_at(10)
        with pytest.raises(KafkaError, match="below the log end offset"):
            bench.log.append_follower(
                batch(10 - base_offset, base_offset=base_offset, leader_epoch=0), 0, NOW
            )
        assert (bench.log.start_offset, bench.log.end_offset) == (10, 10)

    def test_a_damaged_batch_does_not_change_the_log_start_offset(self, bench: Workbench) -> None:
        bench.log.truncate_fully_and_start_at(11)
        with pytest.raises(KafkaError, match="checksum"):
            bench.log.append_follower(batch(3, base_offset=10, leader_epoch=0)[:-1] + b"?", 0, NOW)
        assert (bench.log.start_offset, bench.log.end_offset) == (11, 11)

    def test_a_follower_applies_producer_state_without_checks(self, bench: Workbench) -> None:
        data = batch(base_offset=0, producer_id=3, producer_epoch=0, sequence=17, leader_epoch=0)
        bench.log.append_as_is(data, NOW)
        data = batch(base_offset=1, producer_id=3, producer_epoch=0, sequence=99, leader_epoch=0)
        bench.log.append_as_is(data, NOW)
        assert bench.log.producers.entries[3].next_sequence == 100

    @pytest.mark.parametrize(
        ("data", "code"),
        [
            (batch(base_offset=1)[:-1], ErrorCode.CORRUPT_MESSAGE),
            (batch(base_offset=1) + b"rest", ErrorCode.CORRUPT_MESSAGE),
            (batch(base_offset=1)[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
            (batch(base_offset=0), ErrorCode.INVALID_RECORD),
            (batch(2, base_offset=1) + batch(base_offset=2), ErrorCode.INVALID_RECORD),
        ],
    )
    def test_damaged_or_backward_data_is_rejected_as_a_whole(
        self, bench: Workbench, data: bytearray, code: ErrorCode
    ) -> None:
        bench.append(batch())
        with pytest.raises(KafkaError) as caught:
            bench.log.append_as_is(data, NOW)
        assert caught.value.code is code
        assert bench.log.end_offset == 1


class TestTransactions:
    def test_the_last_stable_offset(self, bench: Workbench) -> None:
        log = bench.log
        bench.append(batch())
        bench.append_transactional(1, 0, 0, count=2)
        bench.append(batch())
        bench.commit_all()
        assert (log.high_watermark, log.last_stable_offset) == (4, 1)
        bench.end_transaction(1, 1, commit=True)
        assert log.last_stable_offset == 1
        bench.commit_all()
        assert (log.high_watermark, log.last_stable_offset) == (5, 5)

    def test_interleaved_aborts_are_indexed(self, bench: Workbench) -> None:
        bench.append_transactional(1, 0, 0)
        bench.append_transactional(2, 0, 0)
        bench.end_transaction(2, 1, commit=False)
        bench.end_transaction(1, 1, commit=False)
        bench.end_transaction(3, 0, commit=False)
        bench.commit_all()
        # The first abort leaves producer 1 open since offset 0; the third one had no data.
        assert bench.log.aborted_transactions(0, 100) == [(2, 1, 2, 0), (1, 0, 3, 4)]
        assert len(bench.content("00000000000000000000.txnindex")) == 2 * 34

    def test_a_marker_is_78_bytes_and_takes_one_offset(self, bench: Workbench) -> None:
        bench.append_transactional(1, 0, 0)
        before = bench.log.size_bytes
        assert bench.end_transaction(1, 1, commit=True) == (1, 1, -1, False)
        assert bench.log.size_bytes - before == 78

    def test_late_markers_are_rejected(self, bench: Workbench) -> None:
        bench.append_transactional(1, 0, 0)
        with pytest.raises(KafkaError) as caught:
            bench.end_transaction(1, 0, commit=True)
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert bench.end_transaction(1, 0, commit=True, version=1).base_offset == 1

    def test_a_data_batch_is_not_a_marker(self, bench: Workbench) -> None:
        with pytest.raises(KafkaError) as caught:
            bench.log.append_marker(batch(), 0, NOW)
        assert caught.value.code is ErrorCode.INVALID_RECORD

    def test_version_two_transactions_bump_the_epoch_each_time(self, bench: Workbench) -> None:
        for epoch in range(3):
            bench.append_transactional(1, epoch, 0)
            bench.end_transaction(1, epoch + 1, commit=True)
        with pytest.raises(KafkaError) as caught:
            bench.append_transactional(1, 1, 1)
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


class TestHighWatermark:
    def test_high_watermark_only_increases_and_stays_within_the_log(self, bench: Workbench) -> None:
        bench.append_many(3)
        assert bench.log.advance_high_watermark(2)
        assert not bench.log.advance_high_watermark(1)
        assert bench.log.advance_high_watermark(99)
        assert bench.log.high_watermark == 3

    def test_header_tuple_and_batch_header_are_interchangeable(self, bench: Workbench) -> None:
        data = batch(2)
        assert bench.log.append_leader(data, read_header(data), 0, NOW).last_offset == 1
        assert bases_in(bench.content("0" * 20 + LOG_SUFFIX)) == [0]
        assert HEADER.unpack_from(data)[0] == 0
