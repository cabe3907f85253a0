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


def test_files_are_appended_read_and_truncated() -> None:
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
    with pytest.raises(DiskError, match="no such file"):
        disk.rename("/sim/t-0-gone/b", "/sim/b")
    with pytest.raises(DiskError, match="no such file"):
        disk.write_file("/sim/t-0-gone/b", b"")
    with pytest.raises(DiskError, match="no such file"):
        disk.sync_directory("/sim/t-0-gone")


def test_synced_bytes_survive_and_others_may_not() -> None:
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
        kept = data.rstrip(b"\0")
        assert kept == b"syncednot"[: len(kept)]
        assert len(kept) >= 6
        assert disk.read_file(f"{FOLDER}/checkpoint") == b"whole"
        ends.add(len(kept))
    assert ends == {6, 7, 8, 9}


def test_unsynced_truncation_may_be_undone() -> None:
    found: set[bytes] = set()
    for seed in range(40):
        disk = disk_with_folder()
        file = disk.open(f"{FOLDER}/0.log", create=True)
        file.append(b"abcdef")
        file.sync()
        disk.sync_directory(FOLDER)
        file.truncate(4)
        file.append(b"X")
        file.truncate(2)
        disk.lose_power(Random(seed), FOLDER)
        found.add(disk.read_file(f"{FOLDER}/0.log"))
    assert found == {b"ab", b"abcdef"}


def test_bytes_left_by_a_power_failure_survive_the_next_one() -> None:
    disk = disk_with_folder()
    disk.write_file(f"{FOLDER}/a", b"1234567890" * 9)
    disk.lose_power(Random(3), FOLDER)
    left = [(name, disk.read_file(f"{FOLDER}/{name}")) for name in disk.list_names(FOLDER)]
    for seed in range(20):
        disk.lose_power(Random(seed), FOLDER)
        assert [(name, disk.read_file(f"{FOLDER}/{name}")) for name in disk.list_names(FOLDER)] == left


def test_a_renamed_file_has_one_of_its_names() -> None:
    seen: set[tuple[tuple[str, bytes], ...]] = set()
    for seed in range(60):
        disk = disk_with_folder()
        for name, content in (("0.log", b"old"), ("0.log.swap", b"new")):
            disk.replace_file(f"{FOLDER}/{name}", content)
        disk.rename(f"{FOLDER}/0.log", f"{FOLDER}/0.log.deleted")
        disk.rename(f"{FOLDER}/0.log.swap", f"{FOLDER}/0.log")
        disk.lose_power(Random(seed), FOLDER)
        seen.add(
            tuple((name, disk.read_file(f"{FOLDER}/{name}")) for name in sorted(disk.list_names(FOLDER)))
        )
    # The old file never remains alone: its name was free before the new file got it.
    assert seen == {
        (("0.log", b"old"), ("0.log.swap", b"new")),
        (("0.log.deleted", b"old"), ("0.log.swap", b"new")),
        (("0.log", b"new"), ("0.log.deleted", b"old")),
        (("0.log", b"new"),),
    }


def test_replaced_file_returns_with_its_name() -> None:
    seen = set()
    for seed in range(20):
        disk = disk_with_folder()
        disk.replace_file(f"{FOLDER}/a", b"old")
        disk.replace_file(f"{FOLDER}/b", b"new")
        disk.rename(f"{FOLDER}/b", f"{FOLDER}/a")
        disk.lose_power(Random(seed), FOLDER)
        seen.add(
            tuple((name, disk.read_file(f"{FOLDER}/{name}")) for name in sorted(disk.list_names(FOLDER)))
        )
    assert seen == {(("a", b"old"), ("b", b"new")), (("a", b"new"),)}


def test_unsynced_deletion_may_be_undone() -> None:
    seen = set()
    for seed in range(20):
        disk = disk_with_folder()
        for name in ("a", "b"):
            disk.replace_file(f"{FOLDER}/{name}", b"content")
            assert disk.unlink(f"{FOLDER}/{name}")
        disk.lose_power(Random(seed), FOLDER)
        seen.add(tuple(sorted(disk.list_names(FOLDER))))
    assert seen == {(), ("a",), ("b",), ("a", "b")}


def test_directory_rename_is_durable_once_its_parent_is_synced() -> None:
    for seed in range(10):
        disk = disk_with_folder()
        disk.replace_file(f"{FOLDER}/a", b"content")
        disk.rename(FOLDER, f"{FOLDER}.deleted")
        disk.sync_directory("/sim")
        disk.lose_power(Random(seed), "/sim")
        assert disk.list_directories("/sim") == ["t-0.deleted"]
        assert disk.read_file(f"{FOLDER}.deleted/a") == b"content"


def test_unsynced_name_may_be_lost() -> None:
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


def test_new_name_is_lost_only_with_later_ones() -> None:
    seen = set()
    for seed in range(40):
        disk = disk_with_folder()
        for name in ("c", "a", "b"):
            disk.write_file(f"{FOLDER}/{name}", b"")
        disk.lose_power(Random(seed), FOLDER)
        seen.add(tuple(disk.list_names(FOLDER)))
    assert seen == {(), ("c",), ("c", "a"), ("c", "a", "b")}


def test_other_folders_keep_their_files() -> None:
    disk = disk_with_folder()
    disk.write_file("/sim/t-1", b"not synced")
    disk.lose_power(Random(1), FOLDER)
    assert disk.read_file("/sim/t-1") == b"not synced"


def test_directory_rename_is_atomic() -> None:
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
