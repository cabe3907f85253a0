"""The snapshots of the metadata log: ``<end offset:20>-<epoch:10>.checkpoint`` beside its segments.

The one at offset 0 is not a snapshot of the log: ``format`` writes it with the first voters. It is deleted
when the log start first moves.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence

from ruslo.broker.quorum.checkpoint_file import (
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from ruslo.broker.quorum.metadata_batches import ControlRecord, VersionedRecord
from ruslo.machines.raft.snapshots import SnapshotId, StoredSnapshot
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError
from ruslo.storage.disk import Disk

SUFFIX = ".checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_LEFTOVER = re.compile(r".*\.checkpoint(\.part|\.deleted)\Z")


logger = logging.getLogger(__name__)


def snapshot_name(id: SnapshotId) -> str:
    return f"{id.offset:020d}-{id.epoch:010d}{SUFFIX}"


class SnapshotStore:
    """Blocking; one thread at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._timestamps: dict[SnapshotId, int] = {}

    def path(self, id: SnapshotId) -> str:
        return os.path.join(self._directory, snapshot_name(id))

    def sweep(self) -> None:
        """Remove leftovers of an interrupted write or deletion."""
        for name in self._disk.list_names(self._directory):
            if _LEFTOVER.match(name):
                self._disk.unlink(os.path.join(self._directory, name))

    def ids(self) -> list[SnapshotId]:
        """Oldest first."""
        found = [_NAME.match(name) for name in self._disk.list_names(self._directory)]
        return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)

    def stored(self) -> list[StoredSnapshot]:
        """The snapshots of the log, oldest first; not the one that ``format`` wrote."""
        return [
            StoredSnapshot(id, self._size(id), self._timestamp_ms(id)) for id in self.ids() if id.offset > 0
        ]

    def write(
        self,
        id: SnapshotId,
        *,
        control: Sequence[ControlRecord],
        records: Iterable[VersionedRecord],
        last_timestamp_ms: int,
        now_ms: int,
    ) -> int:
        """Returns the size in bytes."""
        size = write_checkpoint(
            self._disk,
            self.path(id),
            epoch=id.epoch,
            control=control,
            records=records,
            last_timestamp_ms=last_timestamp_ms,
            now_ms=now_ms,
            read_only=True,
        )
        self._timestamps[id] = last_timestamp_ms
        self.stored()  # Reads missing timestamps here, in the writer's thread.
        return size

    def read(self, id: SnapshotId) -> Checkpoint:
        checkpoint = read_checkpoint(self._disk, self.path(id))
        self._timestamps[id] = checkpoint.last_timestamp_ms
        return checkpoint

    def chunk(self, id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of the snapshot and a chunk of it. Raises KafkaError if either does not exist."""
        if id not in self.ids() or id.offset == 0:
            raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND, f"Snapshot {snapshot_name(id)} does not exist")
        file = self._disk.open(self.path(id))
        try:
            size = file.size()
            if not 0 <= position < size:
                raise KafkaError(
                    ErrorCode.POSITION_OUT_OF_RANGE,
                    f"Position {position} is outside of {snapshot_name(id)}, which has {size} bytes",
                )
            return size, file.pread(min(max_bytes, size - position), position)
        finally:
            file.close()

    def set_aside(self, id: SnapshotId) -> None:
        """Keep a damaged snapshot for inspection, under a name that is not a snapshot's."""
        self._disk.rename(self.path(id), self.path(id) + ".damaged")

    def delete_before(self, id: SnapshotId) -> None:
        for older in self.ids():
            if older < id:
                self._disk.unlink(self.path(older))
                self._timestamps.pop(older, None)

    def _size(self, id: SnapshotId) -> int:
        status = self._disk.status(self.path(id))
        return status.size if status is not None else 0

    def _timestamp_ms(self, id: SnapshotId) -> int:
        if id not in self._timestamps:
            try:
                self.read(id)
            except CorruptLogError as error:
                logger.warning("%s. Nothing is lost, since a newer snapshot exists", error)
                self._timestamps[id] = 0
        return self._timestamps[id]
