from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.records.batch import BASE_OFFSET
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.segment import Segment
from ruslo.storage.segment_search import next_indexed_offset
from tests.unit.storage.workbench import NOW, Workbench, batch

SIZE = len(batch(2))


@pytest.fixture(params=["active", "sealed"])
def segment(request: pytest.FixtureRequest, tmp_path: Path) -> Segment:
    """Twelve batches of two records from offset 0, with index entries at offsets 7, 13 and 19."""
    bench = Workbench(tmp_path, LogConfig(index_interval_bytes=2 * SIZE))
    for at in range(12):
        bench.append(batch(2, timestamp=NOW + at))
    if request.param == "sealed":
        bench.log.roll(24, NOW)
        bench.log.release_idle_files()
    return bench.log.segments[0]


def test_find(segment: Segment) -> None:
    for offset in range(24):
        found = segment.find(offset)
        assert found is not None
        assert (found[0], found[1][BASE_OFFSET]) == (offset // 2 * SIZE, offset - offset % 2)
    assert segment.find(24) is None


def test_next_offset(segment: Segment) -> None:
    assert segment.next_offset() == 24


def test_a_file_that_does_not_end_with_a_batch(segment: Segment) -> None:
    segment.file.append(b"x" * 10)
    segment.size += 10
    assert segment.next_offset() is None


def test_next_indexed_offset(segment: Segment) -> None:
    assert next_indexed_offset(segment, 0, 99) == 7
    assert next_indexed_offset(segment, 3 * SIZE, 99) == 7
    assert next_indexed_offset(segment, 3 * SIZE + 1, 99) == 13
    assert next_indexed_offset(segment, 12 * SIZE, 99) is None


def test_largest_timestamp(segment: Segment) -> None:
    assert segment.largest() == (NOW + 11, 23)
    assert segment.retention_timestamp() == NOW + 11


def test_a_large_file_is_opened_at_its_last_index_entry(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, LogConfig(index_interval_bytes=4096))
    for _ in range(200):
        bench.append(batch(value=bytes(1000)))
    bench.log.close(NOW)
    stem = f"{bench.path}/{0:020d}"
    size = os.path.getsize(stem + ".log")
    # Damage at the start is not detected, because it is not read.
    with open(stem + ".log", "r+b") as file:
        file.write(bytes(61))
    assert Segment(LocalDisk(bench.directory), bench.path, 0, size, NOW).next_offset() == 200


def test_an_index_with_wrong_positions_is_not_used(segment: Segment) -> None:
    segment.write_indexes()
    segment.seal()
    segment.release_files()
    path = Path(segment.stem + ".index")
    data = bytearray(path.read_bytes())
    data[7] += 3
    path.write_bytes(data)
    for offset in (6, 8, 10):
        found = segment.find(offset)
        assert found is not None
        assert found[1][BASE_OFFSET] == offset


def test_a_deleted_segment_leaves_only_renamed_files(segment: Segment) -> None:
    deleted = segment.mark_deleted()
    assert all(name.endswith(".deleted") and os.path.exists(name) for name in deleted)
    assert segment.existing_files() == []


def test_idle_partitions_hold_no_descriptors(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)
    bench.append_many(3)
    bench.commit_all()
    bench.reopen()
    before = len(os.listdir("/proc/self/fd"))
    bench.log.read(0, 100, 3)
    bench.log.max_timestamp_offset(3)
    bench.log.offset_for_timestamp(NOW, 3)
    bench.log.delete_old_segments(NOW)
    assert len(os.listdir("/proc/self/fd")) > before
    bench.log.release_idle_files()
    assert len(os.listdir("/proc/self/fd")) == before
