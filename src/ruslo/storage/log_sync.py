"""Flushes a log in three steps, so that the slow one can run in a thread.

1. ``Log.sync_targets()``, on the event loop: collects what must be synced (``Unsynced``).
2. ``SyncTargets.run()``, or ``run_together`` for many logs, in any thread: syncs it.
3. ``Log.mark_flushed()``, on the event loop: raises the recovery point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ruslo.storage.checkpoints import LEADER_EPOCHS
from ruslo.storage.disk import Disk, DiskError, DiskFile
from ruslo.storage.leader_epochs import LeaderEpochCache
from ruslo.storage.partition_files import PARTITION_METADATA
from ruslo.storage.segment import Segment

_SYNC_ALL_MIN_LOGS = 32
_NEW_SUFFIX = ".tmp"


@dataclass(frozen=True, slots=True)
class SyncTargets:
    disk: Disk
    end_offset: int
    """Everything below this offset is durable once ``run`` has returned."""
    generation: int
    """Number of truncations of the log; another truncation invalidates the result."""
    files: tuple[DiskFile, ...]
    paths: tuple[str, ...]
    replacements: tuple[tuple[str, bytes], ...]
    directories: tuple[str, ...]
    segments: tuple[Segment, ...]
    """Sealed segments among the files."""
    name_changes: int
    """How many changes of file names in the partition directory are covered."""
    txn_index_entries: int
    """How many entries of transaction indexes are covered."""

    def run(self) -> None:
        """Sync everything. After a DiskError the directory must go offline: a retry may succeed falsely.

        Sealed segments are synced before the active one, so no record is durable before earlier ones are.
        """
        for path in self.paths:
            with _ignore_missing():
                self.disk.sync_file(path)
        for file in self.files:
            file.sync()
        for path, data in self.replacements:
            with _ignore_missing():
                _replace(self.disk, path, data)
        for path in self.directories:
            with _ignore_missing():
                self.disk.sync_directory(path)


def run_together(targets: Sequence[SyncTargets]) -> None:
    """Run the flushes of many logs: with one sync of the file system instead of thousands of files."""
    if len(targets) < _SYNC_ALL_MIN_LOGS:
        for target in targets:
            target.run()
        return
    disks = {id(target.disk): target.disk for target in targets}.values()
    replacements = [(target.disk, *replacement) for target in targets for replacement in target.replacements]
    for disk, path, data in replacements:
        with _ignore_missing():
            disk.write_file(path + _NEW_SUFFIX, data)
    for disk in disks:
        disk.sync_everything()
    for disk, path, _ in replacements:
        with _ignore_missing():
            disk.rename(path + _NEW_SUFFIX, path)
    if replacements:
        for disk in disks:
            disk.sync_everything()


def _replace(disk: Disk, path: str, data: bytes) -> None:
    """Replace a file. On a full disk the old file stays as it is, so the flush can be retried later."""
    try:
        disk.replace_file(path, data)
    except DiskError as error:
        error.fatal = error.fatal and not error.disk_full
        raise


@contextmanager
def _ignore_missing() -> Iterator[None]:
    """Ignore missing files: retention or a topic deletion may remove them while a flush runs in a thread."""
    try:
        yield
    except DiskError as error:
        if not error.not_found:
            raise


class Unsynced:
    """The files of a log, other than its active segment, that the next flush must sync."""

    __slots__ = (
        "_name_changes",
        "_synced_name_changes",
        "_txn_index_entries",
        "_txn_indexes",
        "created",
        "generation",
        "segments",
        "snapshots",
    )

    def __init__(self, *, created: bool, segments: Iterable[Segment]) -> None:
        self.created = created
        """Whether the partition directory itself is new."""
        self._name_changes = int(created)
        self._synced_name_changes = 0
        self.segments = list(segments)
        self.snapshots: list[str] = []
        self._txn_indexes: set[str] = set()
        """Transaction indexes with new entries. Recovery cannot detect lost ones below the recovery point."""
        self._txn_index_entries = 0
        self.generation = 0

    def __bool__(self) -> bool:
        return bool(self._names_changed or self.segments or self.snapshots)

    @property
    def _names_changed(self) -> bool:
        return self._name_changes > self._synced_name_changes

    def names_changed(self) -> None:
        """A file was added to the partition directory, removed or renamed."""
        self._name_changes += 1

    def add_segment(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.names_changed()

    def add_snapshot(self, path: str) -> None:
        self.snapshots.append(path)
        self.names_changed()

    def add_txn_index(self, index_path: str) -> None:
        """A transaction index, perhaps a new one, got an entry."""
        self._txn_indexes.add(index_path)
        self._txn_index_entries += 1
        self.names_changed()

    def keep_segments(self, kept: list[Segment]) -> None:
        self.segments = [segment for segment in self.segments if segment in kept]

    def truncated(self, sealed: list[Segment]) -> None:
        self.generation += 1
        self.names_changed()
        self.keep_segments(sealed)

    def targets(
        self,
        disk: Disk,
        log_path: str,
        end_offset: int,
        files: tuple[DiskFile, ...],
        epochs: LeaderEpochCache,
    ) -> SyncTargets:
        paths = [path for segment in self.segments for path in segment.existing_files()]
        paths += self.snapshots
        paths += self._txn_indexes.difference(paths)
        directories = [log_path] if self._names_changed else []
        if self.created:
            paths.append(f"{log_path}/{PARTITION_METADATA}")
            directories.append(disk.directory)
        return SyncTargets(
            disk=disk,
            end_offset=end_offset,
            generation=self.generation,
            files=files,
            paths=tuple(paths),
            replacements=((f"{log_path}/{LEADER_EPOCHS}", epochs.to_bytes()),) if epochs.dirty else (),
            directories=tuple(directories),
            segments=tuple(self.segments),
            name_changes=self._name_changes,
            txn_index_entries=self._txn_index_entries,
        )

    def mark_synced(self, targets: SyncTargets, epochs: LeaderEpochCache) -> None:
        """Forget what ``targets`` has synced, but not what was added while it ran."""
        self.segments = [segment for segment in self.segments if segment not in targets.segments]
        self.snapshots = [path for path in self.snapshots if path not in targets.paths]
        if targets.txn_index_entries == self._txn_index_entries:
            self._txn_indexes.clear()
        self._synced_name_changes = max(self._synced_name_changes, targets.name_changes)
        self.created = False
        if targets.replacements and targets.replacements[0][1] == epochs.to_bytes():
            epochs.dirty = False
