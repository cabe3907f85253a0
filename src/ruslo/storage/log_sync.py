"""What a log has not synced yet, and one flush of it, cut in two so that the slow half can run in a thread.

``Log.sync_targets()`` says on the event loop what must reach the disk; ``SyncTargets.run()``, or
``run_together`` for many logs, does it anywhere; ``Log.mark_flushed()`` takes note of it, on the event loop
again.
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

_WORTH_SYNCING_ALL = 32
_NEW_SUFFIX = ".tmp"


@dataclass(frozen=True, slots=True)
class SyncTargets:
    disk: Disk
    end_offset: int
    """Everything below this offset is durable once ``run`` has returned."""
    generation: int
    """Of the log; a truncation in between makes the result void."""
    files: tuple[DiskFile, ...]
    paths: tuple[str, ...]
    replacements: tuple[tuple[str, bytes], ...]
    directories: tuple[str, ...]
    segments: tuple[Segment, ...]
    """Sealed segments among the files."""
    name_changes: int
    """How many changes of names in the partition's directory are covered."""
    aborts: int
    """How many entries of transaction indexes are covered."""

    def run(self) -> None:
        """Sync everything. On a DiskError the directory must go offline: a second try could only pretend.

        Closed segments come before the active one, so that no record is safe that has unsafe ones before it.
        """
        for path in self.paths:
            with _unless_gone():
                self.disk.sync_file(path)
        for file in self.files:
            file.sync()
        for path, data in self.replacements:
            with _unless_gone():
                _replace(self.disk, path, data)
        for path in self.directories:
            with _unless_gone():
                self.disk.sync_directory(path)


def run_together(targets: Sequence[SyncTargets]) -> None:
    """Run the flushes of many logs: thousands of small files are synced as a whole, not one by one."""
    if len(targets) < _WORTH_SYNCING_ALL:
        for target in targets:
            target.run()
        return
    disks = {id(target.disk): target.disk for target in targets}.values()
    replacements = [(target.disk, *replacement) for target in targets for replacement in target.replacements]
    for disk, path, data in replacements:
        with _unless_gone():
            disk.write_file(path + _NEW_SUFFIX, data)
    for disk in disks:
        disk.sync_everything()
    for disk, path, _ in replacements:
        with _unless_gone():
            disk.rename(path + _NEW_SUFFIX, path)
    if replacements:
        for disk in disks:
            disk.sync_everything()


def _replace(disk: Disk, path: str, data: bytes) -> None:
    """On a full disk the old file stays as it was, so that the flush may be tried again later."""
    try:
        disk.replace_file(path, data)
    except DiskError as error:
        error.fatal = error.fatal and not error.disk_full
        raise


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Retention or the topic's deletion may take a file away while a flush is under way in a thread."""
    try:
        yield
    except DiskError as error:
        if not error.not_found:
            raise


class Unsynced:
    """Everything of a log, other than its active segment, that a flush must reach."""

    __slots__ = (
        "_abort_indexes",
        "_aborts",
        "_name_changes",
        "_synced_name_changes",
        "created",
        "generation",
        "segments",
        "snapshots",
    )

    def __init__(self, *, created: bool, segments: Iterable[Segment]) -> None:
        self.created = created
        """The partition's directory itself is new."""
        self._name_changes = int(created)
        self._synced_name_changes = 0
        self.segments = list(segments)
        self.snapshots: list[str] = []
        self._abort_indexes: set[str] = set()
        """Transaction indexes that have grown: what they lack below the recovery point nobody would find."""
        self._aborts = 0
        self.generation = 0

    def __bool__(self) -> bool:
        return bool(self._names_changed or self.segments or self.snapshots)

    @property
    def _names_changed(self) -> bool:
        return self._name_changes > self._synced_name_changes

    def names_changed(self) -> None:
        """A file came into the partition's directory, or left it."""
        self._name_changes += 1

    def add_segment(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.names_changed()

    def add_snapshot(self, path: str) -> None:
        self.snapshots.append(path)
        self.names_changed()

    def add_txn_index(self, index_path: str) -> None:
        """A transaction index, perhaps a new one, has grown."""
        self._abort_indexes.add(index_path)
        self._aborts += 1
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
        paths += self._abort_indexes.difference(paths)
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
            aborts=self._aborts,
        )

    def done(self, targets: SyncTargets, epochs: LeaderEpochCache) -> None:
        """Forget what ``targets`` has synced; what came up while it ran stays."""
        self.segments = [segment for segment in self.segments if segment not in targets.segments]
        self.snapshots = [path for path in self.snapshots if path not in targets.paths]
        if targets.aborts == self._aborts:
            self._abort_indexes.clear()
        self._synced_name_changes = max(self._synced_name_changes, targets.name_changes)
        self.created = False
        if targets.replacements and targets.replacements[0][1] == epochs.to_bytes():
            epochs.dirty = False
