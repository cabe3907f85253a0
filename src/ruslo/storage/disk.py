"""The port to the file system: Ruslo opens data files only through a ``Disk``.

A ``Disk`` belongs to one log directory. Every failure is a ``DiskError`` that names this directory, which
must go offline.

The contract, for ``LocalDisk`` and every test double:

* A file is appended to, read at any position, and truncated. Changes are visible to all readers at once and
  in order.
* Only ``sync`` (content) and ``sync_directory`` (names) make changes durable. After a failed sync the state
  of unsynced bytes is unknown, so a sync is never retried.
* ``replace_file`` is atomic, and durable when it returns.
* An open file stays readable after it was deleted, and is closed with the last reference to it.

Not in the contract: ``mmap``, seeking, writing in the middle, hard links, permissions, file times other than
the last modification, the order of ``list_names``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import StorageError

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class DiskError(StorageError):
    """An operation on a file failed.

    ``fatal``: the log directory must go offline. It is False if the process lacks descriptors or memory, and
    a log clears it if it could undo a change on a full disk.
    """

    def __init__(self, directory: str, path: str, action: str, cause: OSError) -> None:
        super().__init__(f"cannot {action} {path}: {cause.strerror or cause} (log directory {directory})")
        self.directory = directory
        self.path = path
        self.errno = cause.errno
        self.fatal = cause.errno not in _NO_RESOURCES

    @property
    def disk_full(self) -> bool:
        return self.errno in _NO_SPACE

    @property
    def not_found(self) -> bool:
        return self.errno == errno.ENOENT


class FileStatus(NamedTuple):
    size: int
    modified_ms: int


class FileSlice(NamedTuple):
    """A byte range of a file, which stays open as long as the slice exists."""

    file: DiskFile
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)


class DiskFile(Protocol):
    @property
    def path(self) -> str: ...

    def fileno(self) -> int:
        """The descriptor, for sendfile; a test double without one raises OSError."""
        ...

    def append(self, data: ReadBuffer) -> None:
        """Write all of ``data`` at the end. A failed write may leave a part, which the caller truncates."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def lock(self) -> str | None:
        """Lock the file until it is closed or the process ends.

        Returns None, or the current holder of the lock, which may be in this process.
        """
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    @property
    def directory(self) -> str: ...

    def open(self, path: str, *, create: bool = False) -> DiskFile: ...

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: ReadBuffer) -> None:
        """Create or overwrite a file without syncing it: for files that can be rebuilt."""
        ...

    def replace_file(self, path: str, data: ReadBuffer) -> None:
        """Replace the whole file atomically and durably (``.tmp``, sync, rename, sync of the directory)."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> bool:
        """Delete a file; False if it does not exist."""
        ...

    def remove_tree(self, path: str) -> None: ...

    def make_directory(self, path: str) -> None: ...

    def list_names(self, path: str) -> list[str]: ...

    def list_directories(self, path: str) -> list[str]: ...

    def status(self, path: str) -> FileStatus | None:
        """Size and last modification; None if the file does not exist."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the last modification, which is the age of records without timestamps."""
        ...

    def sync_file(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def sync_everything(self) -> None:
        """Sync all files and directories of the log directory at once."""
        ...


DiskOpener: TypeAlias = Callable[[str], Disk]
"""Returns the disk of a log directory."""
