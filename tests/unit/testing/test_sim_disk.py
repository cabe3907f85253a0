from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.testing.sim_disk import SimDisk


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_deletion_lasts_once_its_directory_is_synced(tmp_path: Path, is_synced: bool) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"content")
    disk = SimDisk(str(tmp_path))
    assert disk.unlink(str(path))
    if is_synced:
        disk.sync_directory(str(tmp_path))
    disk.medium.lose_power(everything=True)
    assert path.exists() != is_synced


def test_what_was_renamed_to_the_name_of_a_deleted_file(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_bytes(name.encode())
    disk = SimDisk(str(tmp_path))
    disk.unlink(str(tmp_path / "old"))
    disk.rename(str(tmp_path / "new"), str(tmp_path / "old"))
    disk.medium.lose_power(everything=True)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"old": b"old", "new": b"new"}
