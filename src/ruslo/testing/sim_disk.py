"""A simulated disk that fails on request and may then lose unsynced data, as in a power failure.

It works on real files and only records what was synced, so it is fast and its files can be inspected. Names
are lost one by one and in any order, which is worse than what journaling file systems do.
"""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass, field

from ruslo.model.buffers import ReadBuffer
from ruslo.storage.disk import DiskError, DiskFile, FileStatus
from ruslo.storage.local_disk import LocalDisk
from ruslo.testing.power_loss import lose_unsynced


@dataclass
class Medium:
    """What is on the disk, by path; everything else is only in the page cache."""

    directory: str
    dies_at: int | None
    """The number of the first change that fails; all later ones fail too. None: no change fails."""
    random: random.Random
    full: bool = False
    """Whether the disk is full: appends fail, everything else works."""
    fails_at: int | None = None
    """The number of the only operation that fails, reads included."""
    changes: int = 0
    operations: int = 0
    synced_sizes: dict[str, int] = field(default_factory=dict)
    truncated: dict[str, bytes] = field(default_factory=dict)
    """Synced bytes past these sizes, of files whose truncation was not synced."""
    unsynced_names: dict[str, bytes | None] = field(default_factory=dict)
    """Content of a name when its directory was last synced (None: no file)."""
    unsynced_renames: list[tuple[str, str, bytes | None]] = field(default_factory=list)
    """Old name, new name, previous content of the new name; each rename is lost as a whole or not at all."""

    @property
    def dead(self) -> bool:
        return self.dies_at is not None and self.changes > self.dies_at

    def operate(self, path: str, action: str) -> None:
        self.operations += 1
        if self.operations == self.fails_at:
            raise DiskError(self.directory, path, action, OSError(errno.EIO, "this operation fails"))

    def change(self, path: str, action: str) -> None:
        self.operate(path, action)
        self.changes += 1
        if self.dead:
            raise DiskError(self.directory, path, action, OSError(errno.EIO, "the disk is dead"))

    def synced(self, path: str, size: int) -> None:
        self.synced_sizes[path] = size
        self.truncated.pop(path, None)

    def remember_name(self, path: str) -> None:
        if path not in self.unsynced_names:
            self.unsynced_names[path] = _content(path)

    def lose_power(self, *, everything: bool = False) -> None:
        """Undo unsynced changes: a random part of them, or all."""
        for path, size in self.synced_sizes.items():
            content = _content(path)
            if content is not None:
                self._lose_content(path, content, size, everything=everything)
        for source, target, before in reversed(self.unsynced_renames):
            is_lost = everything or self.random.random() < 0.5
            if is_lost and os.path.isfile(target) and not os.path.exists(source):
                os.rename(target, source)
                if before is not None:
                    _put(target, before)
        for path, before in self.unsynced_names.items():
            if not everything and self.random.random() < 0.5:
                continue
            if before is not None and os.path.isdir(os.path.dirname(path)):
                _put(path, before)
            elif before is None and os.path.isfile(path):
                os.unlink(path)

    def _lose_content(self, path: str, content: bytes, synced_size: int, *, everything: bool) -> None:
        truncated = self.truncated.get(path, b"")
        if everything or (truncated and self.random.random() < 0.5):
            left = content[:synced_size] + truncated
        else:
            left = lose_unsynced(content, synced_size, self.random)
        if left != content:
            _put(path, left)


def _put(path: str, content: bytes) -> None:
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(content)


def _content(path: str) -> bytes | None:
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read()


class SimFile:
    def __init__(self, medium: Medium, file: DiskFile) -> None:
        self._medium = medium
        self._file = file
        medium.synced_sizes.setdefault(file.path, file.size())

    @property
    def path(self) -> str:
        return self._file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def append(self, data: ReadBuffer) -> None:
        if self._medium.full:
            self._file.append(memoryview(data)[: len(data) // 2])
            cause = OSError(errno.ENOSPC, "no space left")
            raise DiskError(self._medium.directory, self.path, "write to", cause)
        try:
            self._medium.change(self.path, "write to")
        except DiskError:
            if self._medium.changes == (self._medium.dies_at or 0) + 1:
                # The failing write may leave a part of the data.
                self._file.append(memoryview(data)[: self._medium.random.randint(0, len(data))])
            raise
        self._file.append(data)

    def pread(self, size: int, position: int) -> bytes:
        self._medium.operate(self.path, "read")
        return self._file.pread(size, position)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        self._medium.change(self.path, "truncate")
        synced_size = self._medium.synced_sizes.get(self.path, 0)
        if size < synced_size:
            truncated = self._file.pread(synced_size - size, size)
            self._medium.truncated[self.path] = truncated + self._medium.truncated.get(self.path, b"")
            self._medium.synced_sizes[self.path] = size
        self._file.truncate(size)

    def sync(self) -> None:
        size = self._file.size()
        self._medium.change(self.path, "sync")
        self._medium.synced(self.path, max(size, self._medium.synced_sizes.get(self.path, 0)))

    def lock(self) -> str | None:
        return self._file.lock()

    def close(self) -> None:
        self._file.close()


class SimDisk:
    """A LocalDisk that counts every change; ``replace_file`` counts as its single steps."""

    def __init__(self, directory: str, dies_at: int | None = None, seed: int = 0) -> None:
        self.medium = Medium(directory, dies_at, random.Random(seed))
        self.directory = directory
        self._disk = LocalDisk(directory)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        if create and not os.path.exists(path):
            self.medium.change(path, "create")
            self.medium.remember_name(path)
            self.medium.synced_sizes[path] = 0
        else:
            self.medium.operate(path, "open")
        return SimFile(self.medium, self._disk.open(path, create=create))

    def read_file(self, path: str) -> bytes:
        self.medium.operate(path, "read")
        return self._disk.read_file(path)

    def write_file(self, path: str, data: ReadBuffer) -> None:
        self.medium.change(path, "write")
        self.medium.remember_name(path)
        self._disk.write_file(path, data)
        self.medium.synced(path, 0)

    def replace_file(self, path: str, data: ReadBuffer) -> None:
        temporary = path + ".tmp"
        self.write_file(temporary, data)
        self.sync_file(temporary)
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        self.medium.change(source, "rename")
        if self.medium.unsynced_names.pop(source, b"") is None:
            # The old name was never synced either: the file is created under its new name.
            self.medium.remember_name(target)
        else:
            before = self.medium.unsynced_names.pop(target, _content(target))
            self.medium.unsynced_renames.append((source, target, before))
        self._disk.rename(source, target)
        self.medium.synced_sizes[target] = self.medium.synced_sizes.pop(source, os.path.getsize(target))
        self.medium.truncated[target] = self.medium.truncated.pop(source, b"")

    def unlink(self, path: str) -> bool:
        if not os.path.exists(path):
            return False
        self.medium.change(path, "delete")
        self.medium.remember_name(path)
        self.medium.synced_sizes.pop(path, None)
        self.medium.truncated.pop(path, None)
        return self._disk.unlink(path)

    def remove_tree(self, path: str) -> None:
        self.medium.change(path, "delete")
        self._disk.remove_tree(path)

    def make_directory(self, path: str) -> None:
        self.medium.change(path, "create the directory")
        self._disk.make_directory(path)

    def list_names(self, path: str) -> list[str]:
        self.medium.operate(path, "list")
        return self._disk.list_names(path)

    def list_directories(self, path: str) -> list[str]:
        self.medium.operate(path, "list")
        return self._disk.list_directories(path)

    def status(self, path: str) -> FileStatus | None:
        self.medium.operate(path, "read the status of")
        return self._disk.status(path)

    def set_modified(self, path: str, modified_ms: int) -> None:
        self.medium.change(path, "set the time of")
        self._disk.set_modified(path, modified_ms)

    def sync_file(self, path: str) -> None:
        self.medium.change(path, "sync")
        self.medium.synced(path, self._disk.open(path).size())

    def sync_directory(self, path: str) -> None:
        self.medium.change(path, "sync")
        for name in [name for name in self.medium.unsynced_names if os.path.dirname(name) == path]:
            del self.medium.unsynced_names[name]
        self.medium.unsynced_renames = [
            each for each in self.medium.unsynced_renames if os.path.dirname(each[1]) != path
        ]

    def sync_everything(self) -> None:
        self.medium.change(self.directory, "sync")
        for path in list(self.medium.synced_sizes):
            if os.path.exists(path):
                self.medium.synced(path, os.path.getsize(path))
        self.medium.unsynced_names.clear()
        self.medium.unsynced_renames.clear()
