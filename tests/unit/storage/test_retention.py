from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode, KafkaError
from tests.unit.storage.workbench import NOW, Workbench, batch

SIZE = len(batch(2))
HOUR = 3_600_000


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Segments 0, 4 and 8 of two batches each, one hour apart; the newest one is active."""
    config = LogConfig(segment_bytes=2 * SIZE, retention_ms=-1)
    made = Workbench(tmp_path, config)
    for at in range(6):
        made.append(batch(2, timestamp=NOW + at // 2 * HOUR))
    made.commit_all()
    return made


def bases(bench: Workbench) -> list[int]:
    return [segment.base_offset for segment in bench.log.segments]


def configure(bench: Workbench, **settings: object) -> None:
    bench.log.configure(replace(bench.config, **settings))  # type: ignore[arg-type]


class TestTime:
    @pytest.mark.parametrize(
        ("age_ms", "left"),
        [(0, [0, 4, 8]), (HOUR, [0, 4, 8]), (HOUR + 1, [4, 8]), (2 * HOUR + 1, [8]), (3 * HOUR + 1, [12])],
    )
    def test_segments_older_than_the_limit_are_deleted(
        self, bench: Workbench, age_ms: int, left: list[int]
    ) -> None:
        configure(bench, retention_ms=HOUR)
        now_ms = NOW + age_ms
        assert bench.log.delete_old_segments(now_ms) == (3 if left == [12] else 3 - len(left))
        assert bases(bench) == left
        assert bench.log.start_offset == left[0]
        # The active segment was deleted too, and replaced by an empty one.
        assert bench.log.end_offset == 12

    def test_a_future_timestamp_keeps_all_later_segments(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_bytes=SIZE, retention_ms=HOUR))
        for timestamp in (NOW + 100 * HOUR, NOW, NOW):
            bench.append(batch(2, timestamp=timestamp))
        bench.commit_all()
        assert bench.log.delete_old_segments(NOW + 50 * HOUR) == 0

    def test_without_timestamps_the_file_time_counts(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(retention_ms=HOUR))
        bench.append(batch(timestamp=-1))
        bench.commit_all()
        log_file = Path(bench.path, "0" * 20 + ".log")
        os.utime(log_file, (NOW / 1000, NOW / 1000))
        assert bench.log.delete_old_segments(NOW + HOUR) == 0
        assert bench.log.delete_old_segments(NOW + HOUR + 1) == 1


class TestSize:
    @pytest.mark.parametrize(
        ("limit", "left"),
        [
            (6 * SIZE, [0, 4, 8]),
            (4 * SIZE + 1, [0, 4, 8]),  # without one the size would be below the limit
            (4 * SIZE, [4, 8]),
            (2 * SIZE, [8]),
            (1, [8]),
            (0, [12]),
        ],
    )
    def test_size_never_falls_below_the_limit(self, bench: Workbench, limit: int, left: list[int]) -> None:
        configure(bench, retention_bytes=limit)
        bench.log.delete_old_segments(NOW)
        assert bases(bench) == left


class TestStart:
    @pytest.mark.parametrize(("start", "left"), [(3, [0, 4, 8]), (4, [4, 8]), (7, [4, 8]), (12, [8])])
    @pytest.mark.parametrize("policy", [{"delete"}, {"compact", "delete"}, set()])
    def test_segments_below_the_log_start_offset_are_deleted_with_any_policy(
        self, bench: Workbench, start: int, left: list[int], policy: set[str]
    ) -> None:
        configure(bench, cleanup_policy=tuple(policy))
        assert bench.log.delete_records_before(start) == start
        bench.log.delete_old_segments(NOW)
        assert bases(bench) == left
        assert bench.log.start_offset == start

    def test_minus_one_means_the_high_watermark(self, bench: Workbench) -> None:
        assert bench.log.delete_records_before(-1) == 12

    def test_lower_offset_changes_nothing(self, bench: Workbench) -> None:
        bench.log.delete_records_before(5)
        assert bench.log.delete_records_before(2) == 5

    @pytest.mark.parametrize("offset", [13, -2])
    def test_offset_past_the_high_watermark_is_rejected(self, bench: Workbench, offset: int) -> None:
        with pytest.raises(KafkaError) as caught:
            bench.log.delete_records_before(offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_compacted_topic_is_rejected(self, bench: Workbench) -> None:
        configure(bench, cleanup_policy=("compact",))
        with pytest.raises(KafkaError) as caught:
            bench.log.delete_records_before(1)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION

    def test_log_start_offset_survives_a_restart_by_the_checkpoint(self, bench: Workbench) -> None:
        bench.log.delete_records_before(5)
        assert bench.reopen(start_offset=5).start_offset == 5


class TestLimits:
    def test_nothing_above_the_high_watermark_is_deleted(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(segment_bytes=SIZE, retention_ms=0))
        bench.append_many(4, 2)
        bench.log.advance_high_watermark(5)
        assert bench.log.delete_old_segments(NOW + HOUR) == 2
        assert bases(bench) == [4, 6]

    def test_without_delete_in_the_policy_age_does_not_matter(self, bench: Workbench) -> None:
        configure(bench, retention_ms=0, retention_bytes=0, cleanup_policy=("compact",))
        assert bench.log.delete_old_segments(NOW + 99 * HOUR) == 0

    def test_an_empty_log_stays(self, tmp_path: Path) -> None:
        bench = Workbench(tmp_path, LogConfig(retention_ms=0))
        assert bench.log.delete_old_segments(NOW + HOUR) == 0

    def test_files_are_renamed_at_once_and_unlinked_later(self, bench: Workbench) -> None:
        configure(bench, retention_ms=HOUR)
        bench.log.delete_old_segments(NOW + HOUR + 1)
        assert "00000000000000000000.log.deleted" in bench.names()
        assert "00000000000000000000.log" not in bench.names()
        bench.clock.ms += bench.config.file_delete_delay_ms - 1
        bench.trash.remove_due()
        assert "00000000000000000000.log.deleted" in bench.names()
        bench.clock.ms += 1
        bench.trash.remove_due()
        assert not any(name.startswith("00000000000000000000") for name in bench.names())

    def test_epochs_start_at_the_log_start_offset(self, bench: Workbench) -> None:
        configure(bench, retention_ms=HOUR)
        bench.log.delete_old_segments(NOW + HOUR + 1)
        assert bench.log.epochs.entries() == [(0, 4)]
