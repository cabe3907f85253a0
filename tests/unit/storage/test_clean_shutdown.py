from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.storage.clean_shutdown import remove_clean_shutdown_file, write_clean_shutdown_file
from ruslo.storage.local_disk import LocalDisk


def test_the_file_is_kafkas_and_is_removed_once(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    assert remove_clean_shutdown_file(disk) is None
    write_clean_shutdown_file(disk, 343)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":343}'
    assert remove_clean_shutdown_file(disk) == 343
    assert remove_clean_shutdown_file(disk) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"garbage"])
def test_an_unreadable_file_is_a_clean_shutdown_without_an_epoch(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(data)
    assert remove_clean_shutdown_file(LocalDisk(str(tmp_path))) == -1
