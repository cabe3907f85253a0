"""Replaces segments by the compacted one that was made from them. A crash at any step is harmless.

| step, and where it runs                                     | what the next start does after a crash      |
|-------------------------------------------------------------|---------------------------------------------|
| the cleaner has synced ``….cleaned`` files                  | deletes them                                |
| ``begin``, event loop: renames them to ``….swap``; readers  | replaces the old segments if all files have |
| use the new segment from now on                             | the suffix, else deletes the new files      |
| ``retire_old_segments``, a thread: syncs the directory,     | the same, with fewer old segments           |
| renames old files to ``….deleted``, syncs it again          |                                             |
| ``finish``, event loop: removes the suffix, and leaves the  | opens the new segment, or finishes renaming |
| old files to the trash                                      | it                                          |

The directory is synced before each step that relies on its names, because a file system may bring renames to
the disk in another order. New segments may reuse names of old ones, so old segments are retired only once,
and before the log is truncated or its directory renamed.
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
        self._new.txn_index.exists = cleaned.has_txn_index
        self._old_files: list[str] = []
        self._retire_lock = Lock()
        self._retired = False
        self._finished = False

    def begin(self) -> bool:
        """Switch to the new segment; False, and no change, if the log no longer has the old segments."""
        log = self._log
        bases = [segment.base_offset for segment in log.segments]
        first = bases.index(self._replaces[0]) if self._replaces[0] in bases else -1
        stop = first + len(self._replaces)
        if first < 0 or bases[first:stop] != self._replaces or stop >= len(bases):
            return False
        old = log.segments[first:stop]
        # These files may not exist: checking thousands of names would block the event loop.
        self._old_files = [segment.path_of(kind) for segment in old for kind in SUFFIXES]
        self._old_files += [snapshot_path(self._path, base) for base in self._replaces[1:]]
        self._new.rename_to(SWAP_SUFFIX)
        log.segments[first:stop] = [self._new]
        log.swap = self
        log.segments_replaced()
        for segment in old:
            segment.release_files()
        return True

    def retire_old_segments(self) -> None:
        """The slow part, for a thread. After it a crash cannot bring the old segments back."""
        disk = self._log.disk
        with self._retire_lock:
            if self._retired:
                return
            disk.sync_directory(self._path)
            for path in self._old_files:
                _rename_if_exists(self._log, path)
            disk.sync_directory(self._path)
            self._retired = True

    def finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        log = self._log
        log.swap = None
        self._new.rename_to("")
        _write_txn_index_checkpoint(log)
        log.names_changed()
        deleted = [path + DELETED_SUFFIX for path in self._old_files]
        log.trash.add_files(deleted, log.config.file_delete_delay_ms)

    def complete(self) -> None:
        """Do all remaining steps at once, before the log is truncated or closed."""
        self.retire_old_segments()
        self.finish()


def _rename_if_exists(log: Log, path: str) -> None:
    try:
        log.disk.rename(path, path + DELETED_SUFFIX)
    except DiskError as error:
        if not error.not_found:
            raise


def _write_txn_index_checkpoint(log: Log) -> None:
    try:
        log.write_txn_index_checkpoint()
    except DiskError as error:
        # The next start takes the index for damaged and rebuilds it.
        if not error.disk_full:
            raise
