from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ruslo.storage.cleaner.choice import cleanable, make_task
from ruslo.storage.cleaner.job import clean
from ruslo.storage.cleaner.task import CleanedSegment
from ruslo.storage.segment_swap import SegmentSwap
from ruslo.testing.sim_disk import SimDisk
from tests.unit.storage.compacting import COMPACTED, LIMITS, keyed, roll
from tests.unit.storage.workbench import NOW, Workbench, records_from


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path, COMPACTED)
    for number in range(40):
        bench.append(keyed([(b"key-%d" % (number % 4), b"%d" % number)]))
    roll(bench)
    return bench


def cleaned(bench: Workbench) -> list[CleanedSegment]:
    found = cleanable(bench.log, None, NOW)
    assert found is not None
    ready: list[CleanedSegment] = []
    clean(bench.disk, make_task(found, LIMITS, NOW), ready.append)
    return ready


def expected() -> list[tuple[int, bytes | None]]:
    return [(number, b"%d" % number) for number in range(36, 40)]


def test_readers_have_a_log_at_every_step(bench: Workbench) -> None:
    before = records_from(bench.log)
    ready = cleaned(bench)
    assert records_from(bench.log) == before
    for each in ready:
        swap = SegmentSwap(bench.log, each, NOW)
        assert swap.begin()
        assert records_from(bench.log)[-4:] == expected()
        swap.settle()
        assert records_from(bench.log)[-4:] == expected()
        swap.finish()
    assert records_from(bench.log) == expected()
    assert bench.log.swap is None


def test_one_who_reads_an_old_segment_reads_on(bench: Workbench) -> None:
    part = bench.log.read(0, 1 << 20, 40)
    assert part.slice is not None
    data = part.slice.read()
    for each in cleaned(bench):
        swap = SegmentSwap(bench.log, each, NOW)
        swap.begin()
        swap.complete()
    bench.clock.ms += 1_000_000
    bench.trash.remove_due()
    assert part.slice.read() == data


def test_a_log_that_lost_a_source_keeps_what_it_has(bench: Workbench) -> None:
    first, *_ = cleaned(bench)
    bench.log.config = COMPACTED
    bench.log.advance_start_offset(bench.log.segments[1].base_offset)
    bench.log.delete_old_segments(NOW)
    before = records_from(bench.log, bench.log.start_offset)
    assert not SegmentSwap(bench.log, first, NOW).begin()
    assert records_from(bench.log, bench.log.start_offset) == before


def test_retention_waits_and_truncation_completes_a_swap(bench: Workbench) -> None:
    swap = SegmentSwap(bench.log, cleaned(bench)[0], NOW)
    swap.begin()
    bench.log.advance_start_offset(30)
    assert bench.log.delete_old_segments(NOW) == 0
    bench.log.truncate_to(39)
    assert bench.log.swap is None
    assert not any(name.endswith(".swap") for name in bench.names())
    swap.settle()
    swap.finish()
    bench.reopen(clean=False, start_offset=30)
    assert bench.log.end_offset == 39


def test_snapshots_of_segments_that_are_gone_go_with_them(bench: Workbench) -> None:
    bases = [segment.base_offset for segment in bench.log.segments]
    for each in cleaned(bench):
        swap = SegmentSwap(bench.log, each, NOW)
        swap.begin()
        swap.complete()
    kept = {segment.base_offset for segment in bench.log.segments}
    for base in bases[1:]:
        assert (f"{base:020d}.snapshot" in bench.names()) == (base in kept)


def test_what_the_event_loop_does_does_not_grow_with_the_segments(tmp_path: Path) -> None:
    """A round may put one segment in the place of thousands."""
    operations = []
    for count in (5, 50):
        directory = tmp_path / str(count)
        directory.mkdir()
        disk = SimDisk(str(directory))
        bench = Workbench(directory, replace(COMPACTED, segment_bytes=1 << 20), disk)
        for number in range(count):
            bench.append(keyed([(b"key", b"%d" % number)]))
            roll(bench)
        (only,) = cleaned(bench)
        assert len(only.replaces) == count
        before = disk.medium.operations
        swap = SegmentSwap(bench.log, only, NOW)
        assert swap.begin()
        begun = disk.medium.operations
        swap.settle()
        settled = disk.medium.operations
        swap.finish()
        operations.append((begun - before, disk.medium.operations - settled))
        bench.clock.ms += 1_000_000
        bench.trash.remove_due()
        assert not [name for name in bench.names() if name.endswith((".deleted", ".swap", ".cleaned"))]
    assert operations[0] == operations[1]
