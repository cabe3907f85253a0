from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ruslo.model.errors import StorageError
from ruslo.storage.dir_lock import DirLock
from ruslo.storage.local_disk import LocalDisk

HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_cannot_lock_the_directory(tmp_path: Path) -> None:
    """The other process uses the same type of lock as Java."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match=r"is in use: another process, .* holds .*\.lock"):
            DirLock(LocalDisk(str(tmp_path)))
        other.communicate(b"")
    DirLock(LocalDisk(str(tmp_path))).release(remove=True)


def test_a_second_node_in_this_process_cannot_lock_it_either(tmp_path: Path) -> None:
    lock = DirLock(LocalDisk(str(tmp_path)))
    with pytest.raises(StorageError, match="another node in this process"):
        DirLock(LocalDisk(str(tmp_path) + "/."))
    lock.release(remove=False)
    assert (tmp_path / ".lock").exists()
    DirLock(LocalDisk(str(tmp_path))).release(remove=True)
    assert not (tmp_path / ".lock").exists()


def test_release_can_be_called_twice(tmp_path: Path) -> None:
    lock = DirLock(LocalDisk(str(tmp_path)))
    lock.release(remove=True)
    other = DirLock(LocalDisk(str(tmp_path)))
    lock.release(remove=True)
    assert (tmp_path / ".lock").exists()
    other.release(remove=True)
