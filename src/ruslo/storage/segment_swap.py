"""Putting a compacted segment in the place of those it was made from; a crash at any step is harmless.

| step, and where it runs                                     | a crash after it finds                      |
|-------------------------------------------------------------|---------------------------------------------|
| the cleaner has synced ``….cleaned`` files                  | files to throw away                         |
| ``begin``, event loop: they become ``….swap``; readers get  | a whole ``.swap`` beside the old segments,  |
| the new segment from here on                                | whose place it takes; or half of one, which |
|                                                             | is thrown away                              |
| ``settle``, a thread: names synced, old segments become     | the same, with fewer old segments           |
| ``….deleted``, names synced                                 |                                             |
| ``finish``, event loop: the suffix goes, the old files are  | the new segment, or a ``.swap`` alone       |
| left to the trash                                           |                                             |

Names are synced before each step that relies on them, so that this holds even if the file system brings
changes of names to the disk in another order than they were made. The new segment, and later ones, may have
names of old ones: a swap is settled once only, and before the log is cut or its directory renamed.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from ruslo.storage.disk import DiskError
from ruslo.storage.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from ruslo.storage.producer_snapshot import snapshot_path
from ruslo.storage.segment import DELETED_SUFFIX, SUFFIXES, Segment

if TYPE_CHECKING:
    from ruslo.storage.cleaner.task import CleanedSegment
    from ruslo.storage.log import Log


class SegmentSwap:
    def __init__(self, log: Log, cleaned: CleanedSegment, now_ms: int) -> None:
        self._log = log
        self._replaces = cleaned.replaces
        self._path = log.path
        self._new = Segment(log.disk, log.path, cleaned.base_offset, cleaned.size, now_ms, CLEANED_SUFFIX)
        self._new.has_aborts = cleaned.has_aborts
        self._old_files: list[str] = []
        self._settling = Lock()
        self._settled = False
        self._finished = False

    def begin(self) -> bool:
        """Switch over; False, and nothing changed, if the log no longer has the segments it was made from."""
        log = self._log
        bases = [segment.base_offset for segment in log.segments]
        first = bases.index(self._replaces[0]) if self._replaces[0] in bases else -1
        stop = first + len(self._replaces)
        if first < 0 or bases[first:stop] != self._replaces or stop >= len(bases):
            return False
        old = log.segments[first:stop]
        # By name, whether they are there or not: there may be thousands, too many to look on the event loop.
        self._old_files = [segment.path_of(kind) for segment in old for kind in SUFFIXES]
        self._old_files += [snapshot_path(self._path, base) for base in self._replaces[1:]]
        self._new.rename_to(SWAP_SUFFIX)
        log.segments[first:stop] = [self._new]
        log.swap = self
        log.segments_replaced()
        for segment in old:
            segment.release_files()
        return True

    def settle(self) -> None:
        """The slow part, which may run in a thread: afterwards nothing but the new segment can come back."""
        disk = self._log.disk
        with self._settling:
            if self._settled:
                return
            disk.sync_directory(self._path)
            for path in self._old_files:
                _rename_if_there(self._log, path)
            disk.sync_directory(self._path)
            self._settled = True

    def finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        log = self._log
        log.swap = None
        self._new.rename_to("")
        _note_abort_indexes(log)
        log.names_changed()
        deleted = [path + DELETED_SUFFIX for path in self._old_files]
        log.trash.add_files(deleted, log.config.file_delete_delay_ms)

    def complete(self) -> None:
        """Do all that is left at once: somebody is about to cut the log or to close it."""
        self.settle()
        self.finish()


def _rename_if_there(log: Log, path: str) -> None:
    try:
        log.disk.rename(path, path + DELETED_SUFFIX)
    except DiskError as error:
        if not error.not_found:
            raise


def _note_abort_indexes(log: Log) -> None:
    try:
        log.write_abort_checkpoint()
    except DiskError as error:
        # The next start then rebuilds an index that it takes for damaged.
        if not error.disk_full:
            raise
