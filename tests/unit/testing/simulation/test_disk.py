from __future__ import annotations

from random import Random

import pytest

from ruslo.storage.disk import Disk, DiskError
from ruslo.testing.simulation import SimClock
from ruslo.testing.simulation.disk import MemoryDisk

FOLDER = "/sim/t-0"


def disk_with_folder() -> MemoryDisk:
    disk = MemoryDisk(SimClock())
    as_port: Disk = disk
    as_port.make_directory(FOLDER)
    return disk


def test_files_grow_are_read_and_cut() -> None:
    disk = disk_with_folder()
    file = disk.open(f"{FOLDER}/0.log", create=True)
    file.append(b"abc")
    file.append(b"def")
    assert file.pread(3, 2) == b"cde"
    assert file.pread(9, 4) == b"ef"
    file.truncate(4)
    assert disk.read_file(f"{FOLDER}/0.log") == b"abcd"
    status = disk.status(f"{FOLDER}/0.log")
    assert status is not None
    assert status.size == 4
    assert disk.status(f"{FOLDER}/1.log") is None


def test_names() -> None:
    disk = disk_with_folder()
    disk.write_file(f"{FOLDER}/a", b"1")
    disk.rename(f"{FOLDER}/a", f"{FOLDER}/b")
    disk.write_file(f"{FOLDER}/c", b"2")
    assert sorted(disk.list_names(FOLDER)) == ["b", "c"]
    assert disk.list_directories("/sim") == ["t-0"]
    assert disk.unlink(f"{FOLDER}/c")
    assert not disk.unlink(f"{FOLDER}/c")
    disk.rename(FOLDER, "/sim/t-0-gone")
    assert disk.read_file("/sim/t-0-gone/b") == b"1"
    disk.remove_tree("/sim/t-0-gone")
    assert disk.list_names("/sim") == []
    with pytest.raises(DiskError, match="no such file") as raised:
        disk.open("/sim/t-0-gone/b")
    assert raised.value.not_found


def test_what_was_synced_survives_and_the_rest_may_not() -> None:
    ends: set[int] = set()
    for seed in range(40):
        disk = disk_with_folder()
        file = disk.open(f"{FOLDER}/0.log", create=True)
        file.append(b"synced")
        file.sync()
        disk.sync_directory(FOLDER)
        file.append(b"not")
        disk.replace_file(f"{FOLDER}/checkpoint", b"whole")
        disk.lose_power(Random(seed), FOLDER)
        data = disk.read_file(f"{FOLDER}/0.log")
        assert data == b"syncednot"[: len(data)]
        assert disk.read_file(f"{FOLDER}/checkpoint") == b"whole"
        ends.add(len(data))
    assert ends == {6, 7, 8, 9}


def test_a_name_that_was_not_synced_may_be_lost() -> None:
    found: set[bytes | None] = set()
    for seed in range(40):
        disk = disk_with_folder()
        disk.write_file(f"{FOLDER}/snapshot", b"old")
        disk.sync_file(f"{FOLDER}/snapshot")
        disk.sync_directory(FOLDER)
        disk.write_file(f"{FOLDER}/snapshot", b"new")
        disk.sync_file(f"{FOLDER}/snapshot")
        disk.write_file(f"{FOLDER}/other", b"")
        disk.lose_power(Random(seed), FOLDER)
        found.add(disk.read_file(f"{FOLDER}/snapshot"))
        found.add(None if disk.status(f"{FOLDER}/other") is None else b"")
    assert found == {b"old", b"new", b"", None}


def test_other_folders_keep_their_power() -> None:
    disk = disk_with_folder()
    disk.write_file("/sim/t-1", b"not synced")
    disk.lose_power(Random(1), FOLDER)
    assert disk.read_file("/sim/t-1") == b"not synced"


def test_a_renamed_directory_is_back_as_a_whole_or_not_at_all() -> None:
    seen = set()
    for seed in range(20):
        disk = MemoryDisk(SimClock())
        disk.make_directory("/sim/t-0")
        for name in ("a", "b"):
            disk.replace_file(f"/sim/t-0/{name}", b"content")
        disk.rename("/sim/t-0", "/sim/t-0.deleted")
        disk.lose_power(Random(seed), "/sim")
        (directory,) = disk.list_directories("/sim")
        assert sorted(disk.list_names(f"/sim/{directory}")) == ["a", "b"]
        assert disk.read_file(f"/sim/{directory}/a") == b"content"
        seen.add(directory)
    assert seen == {"t-0", "t-0.deleted"}
