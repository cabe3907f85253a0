"""``.lock``: one process, Ruslo or Kafka, per log directory.

The lock is POSIX's (``lockf``), the one Java takes: ``flock`` would not see it. Such locks do not exclude
within a process, so the directories this process holds are remembered too.
"""

from __future__ import annotations

import fcntl
import os

from ruslo.model.errors import StorageError
from ruslo.storage.disk import Disk, DiskError, DiskFile

LOCK = ".lock"

_held: set[str] = set()


class DirLock:
    __slots__ = ("_disk", "_file", "_key", "_path")

    def __init__(self, disk: Disk) -> None:
        """Take the lock; raises StorageError if somebody holds it."""
        self._disk = disk
        self._path = f"{disk.directory}/{LOCK}"
        self._key = os.path.realpath(self._path)
        if self._key in _held:
            raise StorageError(
                f"{disk.directory} is in use by another node in this process (pid {os.getpid()}): "
                "give every node its own log.dirs"
            )
        self._file: DiskFile | None = disk.open(self._path, create=True)
        try:
            fcntl.lockf(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise StorageError(
                f"{disk.directory} is in use: another process holds {self._path} (a Ruslo or Kafka node that "
                "is still running?); stop it, or give this node its own log.dirs"
            ) from None
        except OSError as cause:
            raise DiskError(disk.directory, self._path, "lock", cause) from cause
        _held.add(self._key)

    def release(self, *, remove: bool) -> None:
        """Give the directory free; a clean stop removes the file as well."""
        if self._file is not None:
            if remove:
                self._disk.unlink(self._path)
            self._file.close()
            self._file = None
            _held.discard(self._key)
