"""The snapshots of the metadata log: ``<end offset:20>-<epoch:10>.checkpoint`` beside its segments.

The one at offset 0 is no snapshot of the log but what ``format`` wrote: the first voters. It goes with the
first cut of the log.
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
        """Remove what an interrupted writer, or deletion, left behind."""
        for name in self._disk.list_names(self._directory):
            if _LEFTOVER.match(name):
                self._disk.unlink(os.path.join(self._directory, name))

    def ids(self) -> list[SnapshotId]:
        """Oldest first."""
        found = [_NAME.match(name) for name in self._disk.list_names(self._directory)]
        return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)

    def stored(self) -> list[StoredSnapshot]:
        """Oldest first; the one that ``format`` wrote does not count."""
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
        self.stored()  # Reads the timestamps of those that are not known yet, here in the writer's thread.
        return size

    def read(self, id: SnapshotId) -> Checkpoint:
        checkpoint = read_checkpoint(self._disk, self.path(id))
        self._timestamps[id] = checkpoint.last_timestamp_ms
        return checkpoint

    def piece(self, id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of the whole, and some of it; KafkaError if there is no such snapshot or position."""
        if id not in self.ids() or id.offset == 0:
            raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND, f"there is no snapshot {snapshot_name(id)}")
        file = self._disk.open(self.path(id))
        try:
            size = file.size()
            if not 0 <= position < size:
                raise KafkaError(
                    ErrorCode.POSITION_OUT_OF_RANGE, f"{snapshot_name(id)} has {size} bytes, not {position}"
                )
            return size, file.pread(min(max_bytes, size - position), position)
        finally:
            file.close()

    def set_aside(self, id: SnapshotId) -> None:
        """Keep a damaged one for whoever wants to look at it, under a name that is no snapshot's."""
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
                logger.warning("%s. It is not the newest, so nothing is lost; it goes at a later cut", error)
                self._timestamps[id] = 0
        return self._timestamps[id]
