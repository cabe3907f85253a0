from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.storage.index import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexFile,
    OffsetIndex,
    TimeIndex,
    floor_position,
    floor_time_offset,
)
from ruslo.storage.local_disk import LocalDisk


def offset_index(count: int) -> OffsetIndex:
    index = OffsetIndex()
    for at in range(1, count + 1):
        index.append(at * 10, at * 4200)
    return index


def time_index(count: int) -> TimeIndex:
    index = TimeIndex()
    for at in range(1, count + 1):
        index.append_if_later(at * 1000, at * 10)
    return index


def test_bytes_are_kafkas() -> None:
    assert offset_index(2).to_bytes() == bytes.fromhex("0000000a 00001068 00000014 000020d0")
    times = TimeIndex()
    times.append_if_later(0x18BCFE56800, 7)
    assert times.to_bytes() == bytes.fromhex("0000018bcfe56800 00000007")


@pytest.mark.parametrize("count", [0, 1, 2, 3000])
def test_round_trip(count: int) -> None:
    offsets, times = offset_index(count), time_index(count)
    assert OffsetIndex.from_bytes(offsets.to_bytes()).to_bytes() == offsets.to_bytes()
    assert TimeIndex.from_bytes(times.to_bytes()).to_bytes() == times.to_bytes()


def test_padding_of_a_preallocated_file_is_not_an_entry() -> None:
    assert (
        OffsetIndex.from_bytes(offset_index(3).to_bytes() + bytes(800)).to_bytes()
        == offset_index(3).to_bytes()
    )
    assert TimeIndex.from_bytes(time_index(3).to_bytes() + bytes(1200)).to_bytes() == time_index(3).to_bytes()
    assert TimeIndex.from_bytes(bytes(1200)).last() is None


def test_timestamps_strictly_ascend() -> None:
    index = time_index(2)
    index.append_if_later(2000, 30)
    index.append_if_later(1500, 40)
    assert index.last() == (2000, 20)
    index.append_if_later(2001, 50)
    assert index.last() == (2001, 50)


def test_records_without_timestamps_have_no_entries() -> None:
    index = TimeIndex()
    index.append_if_later(-1, 0)
    assert index.last() is None


@pytest.mark.parametrize("count", [0, 1, 7, 500, 1300, 4000])
def test_an_index_file_finds_the_same_as_the_index_in_memory(tmp_path: Path, count: int) -> None:
    disk = LocalDisk(str(tmp_path))
    offsets, times = offset_index(count), time_index(count)
    disk.write_file(str(tmp_path / "i"), offsets.to_bytes())
    disk.write_file(str(tmp_path / "t"), times.to_bytes())
    index = IndexFile(disk.open(str(tmp_path / "i")), OFFSET_ENTRY)
    time_file = IndexFile(disk.open(str(tmp_path / "t")), TIME_ENTRY)
    assert len(index) == len(time_file) == count
    top = count * 10
    for target in {0, 9, 10, 11, top // 2 - 1, top // 2, top // 2 + 1, top - 1, top, top + 1}:
        if target >= 0:
            assert floor_position(index, target) == offsets.floor_position(target)
            assert index.count_below(target * 420, 1) == offsets.count_below(target * 420, 1)
            assert floor_time_offset(time_file, target * 100) == times.floor_offset(target * 100)


def test_floor() -> None:
    index = offset_index(3)
    assert [index.floor_position(at) for at in (0, 9, 10, 19, 20, 99)] == [0, 0, 4200, 4200, 8400, 12600]
    times = time_index(3)
    # The batch with the timestamp of an entry may start earlier, so the search starts at the previous entry.
    assert [times.floor_offset(at) for at in (0, 1000, 1001, 2000, 9999)] == [0, 0, 10, 10, 30]


def test_truncate() -> None:
    index = offset_index(3)
    index.truncate_to(20)
    assert list(index.offsets) == [10]
    assert list(index.positions) == [4200]
    times = time_index(3)
    times.truncate_to(21)
    assert list(times.offsets) == [10, 20]
    assert list(times.timestamps) == [1000, 2000]
