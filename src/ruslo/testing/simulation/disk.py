"""A disk in memory that keeps the promises of ``ruslo.storage.disk``, and not more than those.

``lose_power`` takes away what was never synced: bytes at the end of files, and whole files whose directory
was not synced since they were made.
"""

from __future__ import annotations

import errno
import posixpath
from random import Random

from ruslo.model.buffers import ReadBuffer
from ruslo.storage.disk import DiskError, FileStatus
from ruslo.testing.simulation.clock import SimClock


class MemoryFile:
    def __init__(self, path: str, data: ReadBuffer = b"") -> None:
        self.path = path
        self.data = bytearray(data)
        self.synced_size = 0
        self.locked = False

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor")

    def append(self, data: ReadBuffer) -> None:
        self.data += data

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self.data[position : position + size])

    def size(self) -> int:
        return len(self.data)

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.synced_size = min(self.synced_size, size)

    def sync(self) -> None:
        self.synced_size = len(self.data)

    def lock(self) -> str | None:
        if self.locked:
            return "another node on this disk"
        self.locked = True
        return None

    def close(self) -> None:
        self.locked = False


class MemoryDisk:
    def __init__(self, clock: SimClock, directory: str = "/sim") -> None:
        self._clock = clock
        self._directory = directory
        self._files: dict[str, MemoryFile] = {}
        self._directories = {directory}
        self._durable_names: dict[str, MemoryFile] = {}
        """What a name stood for when its directory was last synced."""

    @property
    def directory(self) -> str:
        return self._directory

    def release_locks(self) -> None:
        """As the end of a process does."""
        for file in self._files.values():
            file.locked = False

    def lose_power(self, random: Random, below: str) -> None:
        """What was not synced is there or not, or a part of it is, in files below this directory."""
        self._undo_moves(random, below)
        names = sorted(name for name in {*self._files, *self._durable_names} if name.startswith(below + "/"))
        for name in names:
            was, now = self._durable_names.get(name), self._files.get(name)
            if was is not now and random.random() < 0.5:
                if was is None:
                    del self._files[name]
                    continue
                self._files[name] = now = was
            if now is not None:
                now.truncate(random.randint(now.synced_size, now.size()))

    def _undo_moves(self, random: Random, below: str) -> None:
        """A directory that was renamed or removed is back with all its files, or gone with all of them."""
        gone = {posixpath.dirname(name) for name in self._durable_names} - self._directories
        for directory in sorted(each for each in gone if each.startswith(below + "/")):
            files = {
                name: file
                for name, file in self._durable_names.items()
                if posixpath.dirname(name) == directory
            }
            if random.random() < 0.5:
                moved = {name for name, file in self._files.items() if file in files.values()}
                for name in moved:
                    del self._files[name]
                self._directories -= {posixpath.dirname(name) for name in moved}
                self._directories.add(directory)
                self._files |= files
                for name, file in files.items():
                    file.path = name
            else:
                for name, file in files.items():
                    del self._durable_names[name]
                    if self._files.get(file.path) is file:
                        self._durable_names[file.path] = file

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        file = self._files.get(path)
        if file is None:
            if not create:
                raise self._missing(path, "open")
            file = self._files[path] = MemoryFile(path)
        return file

    def read_file(self, path: str) -> bytes:
        return bytes(self.open(path).data)

    def write_file(self, path: str, data: ReadBuffer) -> None:
        self._files[path] = MemoryFile(path, data)

    def replace_file(self, path: str, data: ReadBuffer) -> None:
        file = self._files[path] = self._durable_names[path] = MemoryFile(path, data)
        file.sync()

    def rename(self, source: str, target: str) -> None:
        for path in [path for path in self._files if path == source or path.startswith(source + "/")]:
            file = self._files.pop(path)
            file.path = target + path[len(source) :]
            self._files[file.path] = file
        for path in [path for path in self._directories if path == source or path.startswith(source + "/")]:
            self._directories.remove(path)
            self._directories.add(target + path[len(source) :])

    def unlink(self, path: str) -> bool:
        return self._files.pop(path, None) is not None

    def remove_tree(self, path: str) -> None:
        for name in [name for name in self._files if name.startswith(path + "/")]:
            del self._files[name]
        self._directories = {each for each in self._directories if not f"{each}/".startswith(path + "/")}

    def make_directory(self, path: str) -> None:
        self._directories.add(path)

    def list_names(self, path: str) -> list[str]:
        files = [posixpath.basename(name) for name in self._files if posixpath.dirname(name) == path]
        return files + self.list_directories(path)

    def list_directories(self, path: str) -> list[str]:
        return [posixpath.basename(name) for name in self._directories if posixpath.dirname(name) == path]

    def status(self, path: str) -> FileStatus | None:
        file = self._files.get(path)
        return None if file is None else FileStatus(file.size(), self._clock.now_ms())

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Nothing here asks for the age of a file."""

    def sync_file(self, path: str) -> None:
        self.open(path).sync()

    def sync_directory(self, path: str) -> None:
        for name in [name for name in self._durable_names if posixpath.dirname(name) == path]:
            del self._durable_names[name]
        self._durable_names |= {
            name: file for name, file in self._files.items() if posixpath.dirname(name) == path
        }

    def sync_everything(self) -> None:
        for file in self._files.values():
            file.sync()
        self._durable_names = dict(self._files)

    def _missing(self, path: str, action: str) -> DiskError:
        return DiskError(self._directory, path, action, FileNotFoundError(errno.ENOENT, "no such file"))
