"""The disk of the operating system."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ruslo.model.buffers import ReadBuffer
from ruslo.storage.disk import DiskError, FileStatus

P = ParamSpec("P")
T = TypeVar("T")

_locked_here: set[str] = set()
"""Files that this process has locked: POSIX locks do not exclude within a process."""


class LocalFile:
    """A file of the operating system."""

    __slots__ = ("__weakref__", "_directory", "_fd", "_lock_key", "_path")

    def __init__(self, directory: str, path: str, fd: int) -> None:
        self._directory = directory
        self._path = path
        self._fd = fd
        self._lock_key: str | None = None

    @property
    def path(self) -> str:
        return self._path

    def fileno(self) -> int:
        return self._fd

    def append(self, data: ReadBuffer) -> None:
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                self._append_rest(memoryview(data)[written:])
        except OSError as cause:
            raise DiskError(self._directory, self._path, "write to", cause) from cause

    def _append_rest(self, rest: memoryview) -> None:
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def pread(self, size: int, position: int) -> bytes:
        try:
            data = os.pread(self._fd, size, position)
            if len(data) == size or not data:
                return data
            # A single read returns at most 2 GiB, and may be short in the middle of a file.
            pieces = [data]
            done = len(data)
            while done < size:
                data = os.pread(self._fd, size - done, position + done)
                if not data:
                    break
                pieces.append(data)
                done += len(data)
            return b"".join(pieces)
        except OSError as cause:
            raise DiskError(self._directory, self._path, "read", cause) from cause

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as cause:
            raise DiskError(self._directory, self._path, "read the size of", cause) from cause

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as cause:
            raise DiskError(self._directory, self._path, "truncate", cause) from cause

    def sync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as cause:
            raise DiskError(self._directory, self._path, "sync", cause) from cause

    def lock(self) -> str | None:
        key = os.path.realpath(self._path)
        if key in _locked_here:
            return f"another node in this process (pid {os.getpid()})"
        try:
            # Java takes this kind of lock; ``flock`` would not see it.
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return f"another process, a running Ruslo or Kafka node, holds {self._path}"
        except OSError as cause:
            raise DiskError(self._directory, self._path, "lock", cause) from cause
        _locked_here.add(key)
        self._lock_key = key
        return None

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        if self._lock_key is not None:
            _locked_here.discard(self._lock_key)
            self._lock_key = None

    def __del__(self) -> None:
        # A reader may hold a slice of a file that its log has deleted, so the last reference closes it.
        # The descriptor is -1 after close(), and absent only if the constructor never ran.
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)


class LocalDisk:
    """The real file system below one log directory."""

    __slots__ = ("_directory",)

    def __init__(self, directory: str) -> None:
        self._directory = directory

    @property
    def directory(self) -> str:
        return self._directory

    def _attempt(self, action: str, path: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except OSError as cause:
            raise DiskError(self._directory, path, action, cause) from cause

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return LocalFile(self._directory, path, os.open(path, flags, 0o644))
        except OSError as cause:
            raise DiskError(self._directory, path, "open", cause) from cause

    def read_file(self, path: str) -> bytes:
        # Three system calls: a file object would need more, and there are thousands of files.
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(fd, 4096)
                if len(data) < 4096:
                    return data
                pieces = [data]
                while data := os.read(fd, 1 << 20):
                    pieces.append(data)
                return b"".join(pieces)
            finally:
                os.close(fd)
        except OSError as cause:
            raise DiskError(self._directory, path, "read", cause) from cause

    def write_file(self, path: str, data: ReadBuffer) -> None:
        self._write(path, data, sync=False)

    def _write(self, path: str, data: ReadBuffer, *, sync: bool) -> None:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as cause:
            raise DiskError(self._directory, path, "write", cause) from cause

    def replace_file(self, path: str, data: ReadBuffer) -> None:
        temporary = path + ".tmp"
        self._write(temporary, data, sync=True)
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        self._attempt("rename", source, os.replace, source, target)

    def unlink(self, path: str) -> bool:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except OSError as cause:
            raise DiskError(self._directory, path, "delete", cause) from cause
        return True

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return
        except OSError as cause:
            raise DiskError(self._directory, path, "delete", cause) from cause

    def make_directory(self, path: str) -> None:
        self._attempt("create the directory", path, os.mkdir, path, 0o755)

    def list_names(self, path: str) -> list[str]:
        return self._attempt("list", path, os.listdir, path)

    def list_directories(self, path: str) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=True)]
        except OSError as cause:
            raise DiskError(self._directory, path, "list", cause) from cause

    def status(self, path: str) -> FileStatus | None:
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise DiskError(self._directory, path, "read the status of", cause) from cause
        return FileStatus(found.st_size, found.st_mtime_ns // 1_000_000)

    def set_modified(self, path: str, modified_ms: int) -> None:
        ns = modified_ms * 1_000_000
        self._attempt("set the time of", path, os.utime, path, ns=(ns, ns))

    def sync_file(self, path: str) -> None:
        self._sync(path, os.O_RDONLY)

    def sync_directory(self, path: str) -> None:
        self._sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_everything(self) -> None:
        # One commit of the journal instead of thousands; it reports errors since Linux 5.8. Only a bulk flush
        # needs the import.
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        fd = self._attempt("open", self._directory, os.open, self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not hasattr(libc, "syncfs"):
                os.sync()
            elif libc.syncfs(fd) != 0:
                number = ctypes.get_errno()
                cause = OSError(number, os.strerror(number))
                raise DiskError(self._directory, self._directory, "sync", cause)
        finally:
            os.close(fd)

    def _sync(self, path: str, flags: int) -> None:
        try:
            fd = os.open(path, flags | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as cause:
            raise DiskError(self._directory, path, "sync", cause) from cause
