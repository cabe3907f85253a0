"""``.lock``: only one process, Ruslo or Kafka, may use a log directory."""

from __future__ import annotations

from ruslo.model.errors import StorageError
from ruslo.storage.disk import Disk, DiskFile

LOCK = ".lock"


class DirLock:
    __slots__ = ("_disk", "_file", "_path")

    def __init__(self, disk: Disk) -> None:
        """Acquire the lock; raises StorageError if another node holds it."""
        self._disk = disk
        self._path = f"{disk.directory}/{LOCK}"
        file = disk.open(self._path, create=True)
        holder = file.lock()
        if holder is not None:
            raise StorageError(
                f"{disk.directory} is in use: {holder}; stop it, or give every node its own log.dirs"
            )
        self._file: DiskFile | None = file

    def release(self, *, remove: bool) -> None:
        """Release the lock; a clean shutdown also removes the file."""
        if self._file is not None:
            if remove:
                self._disk.unlink(self._path)
            self._file.close()
            self._file = None
