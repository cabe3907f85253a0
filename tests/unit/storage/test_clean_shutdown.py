from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.storage.clean_shutdown import take_clean_mark, write_clean_mark
from ruslo.storage.disk import LocalDisk


def test_the_mark_is_kafkas_and_is_taken_once(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    assert take_clean_mark(disk) is None
    write_clean_mark(disk, 343)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":343}'
    assert take_clean_mark(disk) == 343
    assert take_clean_mark(disk) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"garbage"])
def test_an_unreadable_mark_is_clean_but_of_no_epoch(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(data)
    assert take_clean_mark(LocalDisk(str(tmp_path))) == -1
