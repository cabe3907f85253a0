"""Files and directories that were renamed and are deleted after ``file.delete.delay.ms``.

The delay lets readers finish that are about to open a file by its name.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from ruslo.model.clock import Clock
from ruslo.storage.disk import Disk


@dataclass(frozen=True, slots=True)
class TrashRemoval:
    disk: Disk
    items: tuple[tuple[str, bool], ...]
    """Path, and whether it is a directory."""

    def run(self) -> None:
        for path, is_directory in self.items:
            if is_directory:
                self.disk.remove_tree(path)
            else:
                # The file may be gone already, with its directory.
                self.disk.unlink(path)


class Trash:
    __slots__ = ("_clock", "_disk", "_items")

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._items: list[tuple[int, str, bool]] = []

    def __len__(self) -> int:
        return len(self._items)

    def add_files(self, paths: Iterable[str], delay_ms: int) -> None:
        due_ms = self._clock.monotonic_ms() + delay_ms
        for path in paths:
            heapq.heappush(self._items, (due_ms, path, False))

    def add_directory(self, path: str, delay_ms: int) -> None:
        heapq.heappush(self._items, (self._clock.monotonic_ms() + delay_ms, path, True))

    def take_due(self) -> TrashRemoval | None:
        """Take what is due; deleting large files takes a while, so ``run`` the removal in a thread."""
        now_ms = self._clock.monotonic_ms()
        items = []
        while self._items and self._items[0][0] <= now_ms:
            items.append(heapq.heappop(self._items)[1:])
        return TrashRemoval(self._disk, tuple(items)) if items else None

    def remove_due(self) -> None:
        removal = self.take_due()
        if removal is not None:
            removal.run()
