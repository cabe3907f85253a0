from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ruslo.storage.disk import DiskError
from ruslo.storage.local_disk import LocalDisk


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(str(tmp_path))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the file size, so that a write really fails without a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Prevent the process from opening another file."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class TestFiles:
    def test_append_read_truncate(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(str(tmp_path / "f"), create=True)
        file.append(b"hello ")
        file.append(memoryview(bytearray(b"world")))
        assert file.size() == 11
        assert file.pread(5, 6) == b"world"
        assert file.pread(100, 9) == b"ld"
        file.truncate(5)
        file.append(b"!")
        file.sync()
        assert (tmp_path / "f").read_bytes() == b"hello!"

    def test_the_last_reference_closes_even_after_deletion(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(str(tmp_path / "f"), create=True)
        file.append(b"data")
        reader = file
        fd = file.fileno()
        disk.unlink(str(tmp_path / "f"))
        del file
        assert reader.pread(4, 0) == b"data"
        del reader
        assert not is_open(fd)

    def test_close_once(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(str(tmp_path / "f"), create=True)
        fd = file.fileno()
        file.close()
        assert not is_open(fd)
        other = disk.open(str(tmp_path / "f"))
        file.close()
        assert is_open(other.fileno())

    def test_a_partial_write(self, disk: LocalDisk, tmp_path: Path) -> None:
        file = disk.open(str(tmp_path / "f"), create=True)
        with largest_file(10), pytest.raises(DiskError) as failed:
            file.append(b"x" * 25)
        assert failed.value.disk_full
        assert failed.value.directory == str(tmp_path)
        assert file.size() == 10


class TestErrors:
    def test_errors_name_the_directory_and_the_file(self, disk: LocalDisk, tmp_path: Path) -> None:
        with pytest.raises(DiskError, match=r"cannot open .*missing: No such file") as failed:
            disk.open(str(tmp_path / "missing"))
        assert failed.value.directory == str(tmp_path)
        assert failed.value.not_found
        assert not failed.value.disk_full
        assert failed.value.fatal

    def test_too_many_open_files_is_not_fatal(self) -> None:
        assert not DiskError("d", "d/f", "open", OSError(errno.EMFILE, "Too many open files")).fatal

    def test_full_disk_is_recognised(self) -> None:
        error = DiskError("d", "d/f", "write to", OSError(errno.ENOSPC, "No space left on device"))
        assert error.disk_full


class TestDirectory:
    def test_replace_file_leaves_nothing_else(self, disk: LocalDisk, tmp_path: Path) -> None:
        disk.replace_file(str(tmp_path / "f"), b"one")
        disk.replace_file(str(tmp_path / "f"), b"two")
        assert (tmp_path / "f").read_bytes() == b"two"
        assert disk.list_names(str(tmp_path)) == ["f"]

    def test_a_failed_replacement_keeps_the_old_content(self, disk: LocalDisk, tmp_path: Path) -> None:
        disk.replace_file(str(tmp_path / "f"), b"old")
        with largest_file(4), pytest.raises(DiskError):
            disk.replace_file(str(tmp_path / "f"), b"new and longer")
        assert (tmp_path / "f").read_bytes() == b"old"

    def test_names_and_status(self, disk: LocalDisk, tmp_path: Path) -> None:
        disk.make_directory(str(tmp_path / "d"))
        disk.write_file(str(tmp_path / "d" / "f"), b"12345")
        assert disk.list_directories(str(tmp_path)) == ["d"]
        status = disk.status(str(tmp_path / "d" / "f"))
        assert status is not None
        assert status.size == 5
        assert status.modified_ms == os.stat(tmp_path / "d" / "f").st_mtime_ns // 1_000_000
        assert disk.status(str(tmp_path / "nothing")) is None
        assert disk.read_file(str(tmp_path / "d" / "f")) == b"12345"
        disk.rename(str(tmp_path / "d"), str(tmp_path / "e"))
        assert disk.unlink(str(tmp_path / "e" / "f"))
        assert not disk.unlink(str(tmp_path / "e" / "f"))
        disk.remove_tree(str(tmp_path / "e"))
        disk.remove_tree(str(tmp_path / "e"))
        assert disk.list_names(str(tmp_path)) == []

    def test_large_files_are_read_whole(self, disk: LocalDisk, tmp_path: Path) -> None:
        data = os.urandom(5000)
        disk.write_file(str(tmp_path / "f"), data)
        assert disk.read_file(str(tmp_path / "f")) == data

    def test_syncs(self, disk: LocalDisk, tmp_path: Path) -> None:
        disk.write_file(str(tmp_path / "f"), b"x")
        disk.sync_file(str(tmp_path / "f"))
        disk.sync_directory(str(tmp_path))
        disk.sync_everything()
        with pytest.raises(DiskError) as failed:
            disk.sync_file(str(tmp_path / "gone"))
        assert failed.value.not_found
