from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from ruslo.records.batch import HEADER
from ruslo.storage.cleaner.cleanable import find_cleanable, make_task
from ruslo.storage.cleaner.job import clean
from ruslo.storage.cleaner.task import CleanedSegment
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log import Log
from ruslo.storage.log_manager import LogManager
from ruslo.storage.segment_swap import SegmentSwap
from ruslo.testing.sim_disk import SimDisk
from tests.unit.storage.compacting import COMPACTED, LIMITS, keyed, roll
from tests.unit.storage.workbench import (
    NOW,
    PARTITION,
    TOPIC_ID,
    ManualClock,
    Workbench,
    records_from,
)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path, COMPACTED)
    update(bench.log)
    roll(bench)
    return bench


def update(log: Log) -> None:
    """Write forty records of four keys."""
    for number in range(40):
        data = keyed([(b"key-%d" % (number % 4), b"%d" % number)])
        log.append_leader(data, HEADER.unpack_from(data), 0, NOW)


def cleaned(log: Log) -> list[CleanedSegment]:
    found = find_cleanable(log, None, NOW)
    assert found is not None
    ready: list[CleanedSegment] = []
    clean(log.disk, make_task(found, LIMITS, NOW), ready.append)
    return ready


def expected() -> list[tuple[int, bytes | None]]:
    return [(number, b"%d" % number) for number in range(36, 40)]


def test_readers_find_a_complete_log_at_every_step(bench: Workbench) -> None:
    before = records_from(bench.log)
    ready = cleaned(bench.log)
    assert records_from(bench.log) == before
    for each in ready:
        swap = SegmentSwap(bench.log, each, NOW)
        assert swap.begin()
        assert records_from(bench.log)[-4:] == expected()
        swap.retire_old_segments()
        assert records_from(bench.log)[-4:] == expected()
        swap.finish()
    assert records_from(bench.log) == expected()
    assert bench.log.swap is None


def test_reader_of_a_replaced_segment_can_continue(bench: Workbench) -> None:
    part = bench.log.read(0, 1 << 20, 40)
    assert part.slice is not None
    data = part.slice.read()
    for each in cleaned(bench.log):
        swap = SegmentSwap(bench.log, each, NOW)
        swap.begin()
        swap.complete()
    bench.clock.ms += 1_000_000
    bench.trash.remove_due()
    assert part.slice.read() == data


def test_log_that_lost_a_source_segment_is_not_changed(bench: Workbench) -> None:
    first, *_ = cleaned(bench.log)
    bench.log.configure(COMPACTED)
    bench.log.advance_start_offset(bench.log.segments[1].base_offset)
    bench.log.delete_old_segments(NOW)
    before = records_from(bench.log, bench.log.start_offset)
    assert not SegmentSwap(bench.log, first, NOW).begin()
    assert records_from(bench.log, bench.log.start_offset) == before


def test_retention_waits_and_truncation_completes_a_swap(bench: Workbench) -> None:
    swap = SegmentSwap(bench.log, cleaned(bench.log)[0], NOW)
    swap.begin()
    bench.log.advance_start_offset(30)
    assert bench.log.delete_old_segments(NOW) == 0
    bench.log.truncate_to(39)
    assert bench.log.swap is None
    assert not any(name.endswith(".swap") for name in bench.names())
    swap.retire_old_segments()
    swap.finish()
    bench.reopen(clean=False, recovery_point=39, start_offset=30)
    assert bench.log.end_offset == 39
    assert f"{0:020d}.log" in bench.names()


def test_snapshots_of_replaced_segments_are_deleted(bench: Workbench) -> None:
    bases = [segment.base_offset for segment in bench.log.segments]
    for each in cleaned(bench.log):
        swap = SegmentSwap(bench.log, each, NOW)
        swap.begin()
        swap.complete()
    kept = {segment.base_offset for segment in bench.log.segments}
    for base in bases[1:]:
        assert (f"{base:020d}.snapshot" in bench.names()) == (base in kept)


def test_work_on_the_event_loop_does_not_depend_on_the_number_of_segments(tmp_path: Path) -> None:
    """A round may replace thousands of segments by one."""
    operations = []
    for count in (5, 50):
        directory = tmp_path / str(count)
        directory.mkdir()
        disk = SimDisk(str(directory))
        bench = Workbench(directory, replace(COMPACTED, segment_bytes=1 << 20), disk)
        for number in range(count):
            bench.append(keyed([(b"key", b"%d" % number)]))
            roll(bench)
        (only,) = cleaned(bench.log)
        assert len(only.replaces) == count
        before = disk.medium.operations
        swap = SegmentSwap(bench.log, only, NOW)
        assert swap.begin()
        begun = disk.medium.operations
        swap.retire_old_segments()
        retired = disk.medium.operations
        swap.finish()
        operations.append((begun - before, disk.medium.operations - retired))
        bench.clock.ms += 1_000_000
        bench.trash.remove_due()
        assert not [name for name in bench.names() if name.endswith((".deleted", ".swap", ".cleaned"))]
    assert operations[0] == operations[1]


def retire_concurrently(swap: SegmentSwap, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Retire the old segments; halfway run another thread as far as it gets."""
    sync_directory = LocalDisk.sync_directory
    other = Thread(target=act)

    def interrupted(disk: LocalDisk, path: str) -> None:
        monkeypatch.setattr(LocalDisk, "sync_directory", sync_directory)
        other.start()
        other.join(0.3)
        sync_directory(disk, path)

    monkeypatch.setattr(LocalDisk, "sync_directory", interrupted)
    swap.retire_old_segments()
    other.join()


def test_a_log_that_is_truncated_during_a_swap(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log soon has new segments with the names of the replaced ones."""
    bases = [segment.base_offset for segment in bench.log.segments]

    def truncate_and_append() -> None:
        bench.log.truncate_to(0)
        update(bench.log)

    swap = SegmentSwap(bench.log, cleaned(bench.log)[0], NOW)
    assert swap.begin()
    retire_concurrently(swap, truncate_and_append, monkeypatch)
    assert [segment.base_offset for segment in bench.log.segments] == bases[:-1]
    bench.reopen(clean=False)
    assert [offset for offset, _ in records_from(bench.log)] == list(range(40))


def test_a_partition_that_is_recreated_during_a_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new directory and its first segment have the names of the deleted ones."""

    def start() -> LogManager:
        manager = LogManager.open([str(tmp_path)], ManualClock())
        manager.load(lambda _: COMPACTED)
        return manager

    def recreate() -> None:
        manager.delete(PARTITION)
        update(manager.create(PARTITION, bytes(16), COMPACTED))

    manager = start()
    log = manager.create(PARTITION, TOPIC_ID, COMPACTED)
    update(log)
    log.flush(NOW)
    log.advance_high_watermark(40)
    swap = SegmentSwap(log, cleaned(log)[0], NOW)
    assert swap.begin()
    retire_concurrently(swap, recreate, monkeypatch)
    manager.abandon()
    manager = start()
    assert [offset for offset, _ in records_from(manager.logs[PARTITION])] == list(range(40))
    manager.abandon()
