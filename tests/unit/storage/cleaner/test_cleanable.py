from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ruslo.storage.cleaner.cleanable import find_cleanable, first_dirty_offset, make_task
from tests.unit.storage.compacting import COMPACTED, LIMITS, keyed, roll
from tests.unit.storage.workbench import NOW, Workbench

HOUR_MS = 3_600_000


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Segments 0-9, 10-19 and 20-29, an hour apart, and an active segment with one record."""
    bench = Workbench(tmp_path, replace(COMPACTED, segment_bytes=1 << 20))
    for _ in range(3):
        for number in range(10):
            bench.append(keyed([(b"key-%d" % number, bytes(50))], timestamp=bench.clock.ms))
        roll(bench)
        bench.clock.ms += HOUR_MS
    bench.append(keyed([(b"key", b"active")], timestamp=bench.clock.ms))
    bench.commit_all()
    return bench


def test_all_sealed_segments_are_dirty_at_first(bench: Workbench) -> None:
    found = find_cleanable(bench.log, None, bench.clock.ms)
    assert found is not None
    assert (found.first_dirty_offset, found.end_offset, found.clean_bytes) == (0, 30, 0)
    assert found.dirty_bytes == sum(segment.size for segment in bench.log.segments[:-1])
    assert (found.dirty_ratio, found.overdue, found.is_worth_cleaning) == (1.0, False, True)
    task = make_task(found, LIMITS, NOW)
    assert [(each.base_offset, each.next_base) for each in task.segments] == [(0, 10), (10, 20), (20, 30)]


@pytest.mark.parametrize(("ratio", "is_worth_cleaning"), [(0.3, True), (0.4, False)])
def test_dirty_ratio_decides(bench: Workbench, ratio: float, is_worth_cleaning: bool) -> None:
    bench.log.configure(replace(COMPACTED, min_cleanable_dirty_ratio=ratio))
    found = find_cleanable(bench.log, 20, bench.clock.ms)
    assert found is not None
    assert 0.33 < found.dirty_ratio < 0.34
    assert found.is_worth_cleaning is is_worth_cleaning


def test_clean_log_needs_no_compaction(bench: Workbench) -> None:
    assert find_cleanable(bench.log, 30, bench.clock.ms) is None
    bench.log.configure(replace(COMPACTED, cleanup_policy=("delete",)))
    assert find_cleanable(bench.log, None, bench.clock.ms) is None


@pytest.mark.parametrize(
    ("lag_ms", "end"),
    [(0, 30), (HOUR_MS // 2, 30), (HOUR_MS + 1, 20), (2 * HOUR_MS + 1, 10), (9 * HOUR_MS, None)],
)
def test_segments_within_the_min_compaction_lag_wait(bench: Workbench, lag_ms: int, end: int | None) -> None:
    bench.log.configure(replace(COMPACTED, min_compaction_lag_ms=lag_ms))
    found = find_cleanable(bench.log, None, bench.clock.ms)
    assert (None if found is None else found.end_offset) == end


def test_old_records_do_not_wait_for_the_ratio(bench: Workbench) -> None:
    for lag_ms, overdue in ((2 * HOUR_MS, False), (2 * HOUR_MS - 1, False), (HOUR_MS - 1, True)):
        bench.log.configure(
            replace(
                COMPACTED,
                min_cleanable_dirty_ratio=1.0,
                max_compaction_lag_ms=lag_ms,
                min_compaction_lag_ms=0,
            )
        )
        found = find_cleanable(bench.log, 20, bench.clock.ms)
        assert found is not None
        assert (found.overdue, found.is_worth_cleaning) == (overdue, overdue)


@pytest.mark.parametrize(("checkpoint", "expected"), [(None, 5), (3, 5), (5, 5), (12, 12), (31, 31), (32, 5)])
def test_a_checkpoint_outside_the_log_is_ignored(
    bench: Workbench, checkpoint: int | None, expected: int
) -> None:
    bench.log.advance_start_offset(5)
    assert first_dirty_offset(bench.log, checkpoint) == expected
