"""A disk in memory that gives the guarantees of ``ruslo.storage.disk`` and no more.

``lose_power`` drops what was never synced, independently for each file and each name: part of what was
written to a file, a truncation, or the creation, removal or change of a name. As in every journaling file
system, a rename is undone as a whole, and a new name is lost only together with later names of its directory.
"""

from __future__ import annotations

import errno
import posixpath
from random import Random
from typing import NamedTuple

from ruslo.model.buffers import ReadBuffer
from ruslo.storage.disk import DiskError, FileStatus
from ruslo.testing.power_loss import lose_unsynced
from ruslo.testing.simulation.clock import SimClock


class MemoryFile:
    def __init__(self, path: str, data: ReadBuffer = b"") -> None:
        self.path = path
        self.data = bytearray(data)
        self.synced_size = 0
        self._truncated_bytes = b""
        """The bytes after ``synced_size`` that were synced before a truncation that is not synced."""
        self.locked = False

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no file descriptor")

    def append(self, data: ReadBuffer) -> None:
        self.data += data

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self.data[position : position + size])

    def size(self) -> int:
        return len(self.data)

    def truncate(self, size: int) -> None:
        if size < self.synced_size:
            self._truncated_bytes = bytes(self.data[size : self.synced_size]) + self._truncated_bytes
            self.synced_size = size
        del self.data[size:]

    def sync(self) -> None:
        self.synced_size = len(self.data)
        self._truncated_bytes = b""

    def lose_power(self, random: Random) -> None:
        if self._truncated_bytes and random.random() < 0.5:
            self.data[self.synced_size :] = self._truncated_bytes
        else:
            self.data[:] = lose_unsynced(self.data, self.synced_size, random)
        self.sync()

    def lock(self) -> str | None:
        if self.locked:
            return "another node on this disk"
        self.locked = True
        return None

    def close(self) -> None:
        self.locked = False


Folder = dict[str, MemoryFile]
"""Files by their names."""


class _Rename(NamedTuple):
    source: str
    target: str
    file: MemoryFile
    replaced: MemoryFile | None


class MemoryDisk:
    def __init__(self, clock: SimClock, directory: str = "/sim") -> None:
        self._clock = clock
        self.directory = directory
        self._folders: dict[str, Folder] = {directory: {}}
        self._synced: dict[str, Folder] = {}
        """The names of each directory when it was last synced."""
        self._renames: list[_Rename] = []
        """Renames of files whose old name is synced and whose new name is not."""

    def release_locks(self) -> None:
        """Release all locks, as the end of a process does."""
        for folder in self._folders.values():
            for file in folder.values():
                file.locked = False

    # -- power -----------------------------------------------------------------------------------------------

    def lose_power(self, random: Random, below: str) -> None:
        """Drop some of what was not synced below this directory."""
        for path in sorted(path for path in self._synced if path not in self._folders):
            if _is_below(path, below):
                self._lose_move(random, path)
        for rename in reversed(self._renames):
            if _is_below(rename.target, below):
                self._lose_rename(random, rename)
        self._renames = [rename for rename in self._renames if not _is_below(rename.target, below)]
        for path in sorted(path for path in self._folders if path == below or _is_below(path, below)):
            folder = self._folders[path]
            self._lose_names(random, path, folder)
            for name in sorted(folder):
                folder[name].lose_power(random)
            self._synced[path] = dict(folder)

    def _lose_names(self, random: Random, path: str, folder: Folder) -> None:
        synced = self._synced.get(path, {})
        new = [name for name in folder if name not in synced]
        for name in new[random.randint(0, len(new)) :]:
            del folder[name]
        for name, was in sorted(synced.items()):
            if was is not folder.get(name) and random.random() < 0.5:
                folder[name] = was
                was.path = f"{path}/{name}"

    def _lose_rename(self, random: Random, rename: _Rename) -> None:
        source, target, file, replaced = rename
        if self._find(target) is not file or self._find(source) is not None:
            return
        if random.random() < 0.5:
            self._take(target)
            self._put(source, file)
            if replaced is not None:
                self._put(target, replaced)
        else:
            names = self._synced.get(posixpath.dirname(source), {})
            for name in [name for name, each in names.items() if each is file]:
                del names[name]
            self._mark_synced(target, file)

    def _lose_move(self, random: Random, path: str) -> None:
        """A renamed or removed directory is restored with all its files, or lost with all of them."""
        if random.random() < 0.5:
            self._complete_move(path)
            return
        files = self._synced[path]
        for other, folder in list(self._folders.items()):
            if any(file in files.values() for file in folder.values()):
                del self._folders[other]
        self._folders[path] = dict(files)
        for name, file in files.items():
            file.path = f"{path}/{name}"

    def _complete_move(self, path: str) -> None:
        for file in self._synced.pop(path).values():
            if self._find(file.path) is file:
                self._mark_synced(file.path, file)

    # -- files -----------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        file = self._find(path)
        if file is None:
            if not create:
                raise self._missing(path, "open")
            file = self._put(path, MemoryFile(path))
        return file

    def read_file(self, path: str) -> bytes:
        return bytes(self.open(path).data)

    def write_file(self, path: str, data: ReadBuffer) -> None:
        self._put(path, MemoryFile(path, data))

    def replace_file(self, path: str, data: ReadBuffer) -> None:
        file = self._put(path, MemoryFile(path, data))
        file.sync()
        self._mark_synced(path, file)

    def rename(self, source: str, target: str) -> None:
        if source in self._folders:
            for path in [path for path in self._folders if path == source or _is_below(path, source)]:
                moved = self._folders[target + path[len(source) :]] = self._folders.pop(path)
                for name, each in moved.items():
                    each.path = f"{target}{path[len(source) :]}/{name}"
            return
        file = self._find(source)
        if file is None:
            raise self._missing(source, "rename")
        if self._synced_at(source) is file or any(
            earlier.target == source and earlier.file is file for earlier in self._renames
        ):
            self._renames.append(_Rename(source, target, file, self._find(target)))
        self._take(source)
        self._put(target, file)

    def unlink(self, path: str) -> bool:
        return self._take(path) is not None

    def remove_tree(self, path: str) -> None:
        for each in [each for each in self._folders if each == path or _is_below(each, path)]:
            del self._folders[each]

    def make_directory(self, path: str) -> None:
        self._folders.setdefault(path, {})

    def list_names(self, path: str) -> list[str]:
        return [*self._folders.get(path, {}), *self.list_directories(path)]

    def list_directories(self, path: str) -> list[str]:
        return [posixpath.basename(each) for each in self._folders if posixpath.dirname(each) == path]

    def status(self, path: str) -> FileStatus | None:
        file = self._find(path)
        return None if file is None else FileStatus(file.size(), self._clock.now_ms())

    def set_modified(self, path: str, modified_ms: int) -> None:
        """No simulated code reads the age of a file."""

    # -- syncing ---------------------------------------------------------------------------------------------

    def sync_file(self, path: str) -> None:
        self.open(path).sync()

    def sync_directory(self, path: str) -> None:
        if path not in self._folders:
            raise self._missing(path, "sync")
        for moved in [each for each in self._synced if each not in self._folders]:
            if posixpath.dirname(moved) == path:
                self._complete_move(moved)
        self._synced[path] = dict(self._folders[path])
        self._renames = [each for each in self._renames if posixpath.dirname(each.target) != path]

    def sync_everything(self) -> None:
        for folder in self._folders.values():
            for file in folder.values():
                file.sync()
        self._synced = {path: dict(folder) for path, folder in self._folders.items()}
        self._renames.clear()

    # -- names -----------------------------------------------------------------------------------------------

    def _find(self, path: str) -> MemoryFile | None:
        folder, _, name = path.rpartition("/")
        return self._folders.get(folder, {}).get(name)

    def _put(self, path: str, file: MemoryFile) -> MemoryFile:
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            raise self._missing(path, "create")
        self._folders[folder][name] = file
        file.path = path
        return file

    def _take(self, path: str) -> MemoryFile | None:
        folder, _, name = path.rpartition("/")
        return self._folders.get(folder, {}).pop(name, None)

    def _synced_at(self, path: str) -> MemoryFile | None:
        folder, _, name = path.rpartition("/")
        return self._synced.get(folder, {}).get(name)

    def _mark_synced(self, path: str, file: MemoryFile) -> None:
        folder, _, name = path.rpartition("/")
        self._synced.setdefault(folder, {})[name] = file

    def _missing(self, path: str, action: str) -> DiskError:
        return DiskError(self.directory, path, action, FileNotFoundError(errno.ENOENT, "no such file"))


def _is_below(path: str, directory: str) -> bool:
    return path.startswith(directory + "/")
