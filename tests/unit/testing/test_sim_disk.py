from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.testing.sim_disk import SimDisk


@pytest.mark.parametrize("is_synced", [True, False])
def test_deletion_is_durable_once_its_directory_is_synced(tmp_path: Path, is_synced: bool) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"content")
    disk = SimDisk(str(tmp_path))
    assert disk.unlink(str(path))
    if is_synced:
        disk.sync_directory(str(tmp_path))
    disk.medium.lose_power(everything=True)
    assert path.exists() != is_synced


def test_file_renamed_to_the_name_of_a_deleted_file(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_bytes(name.encode())
    disk = SimDisk(str(tmp_path))
    disk.unlink(str(tmp_path / "old"))
    disk.rename(str(tmp_path / "new"), str(tmp_path / "old"))
    disk.medium.lose_power(everything=True)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"old": b"old", "new": b"new"}


def test_unsynced_truncation_may_be_undone(tmp_path: Path) -> None:
    found = set()
    path = tmp_path / "0.log"
    for seed in range(20):
        path.write_bytes(b"")
        disk = SimDisk(str(tmp_path), seed=seed)
        file = disk.open(str(path))
        file.append(b"abcdef")
        file.sync()
        file.truncate(4)
        file.append(b"X")
        file.truncate(2)
        disk.medium.lose_power()
        found.add(path.read_bytes())
    assert found == {b"ab", b"abcdef"}


def test_synced_truncation_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"abcdef")
    disk = SimDisk(str(tmp_path))
    file = disk.open(str(path))
    file.truncate(2)
    file.sync()
    file.append(b"not synced")
    disk.medium.lose_power(everything=True)
    assert path.read_bytes() == b"ab"
