"""Downloads a snapshot of the leader in chunks, under a partial name until it is complete."""

from __future__ import annotations

from ruslo.broker.quorum.checkpoint_file import PARTIAL_SUFFIX, Checkpoint, read_checkpoint, seal_checkpoint
from ruslo.broker.quorum.snapshot_store import SnapshotStore
from ruslo.machines.raft.effects import WriteSnapshotChunk
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.storage.disk import Disk, DiskFile


class SnapshotDownload:
    """Blocking; one download at a time: the first chunk of another snapshot starts over."""

    def __init__(self, disk: Disk, snapshots: SnapshotStore) -> None:
        self._disk = disk
        self._snapshots = snapshots
        self._id: SnapshotId | None = None
        self._file: DiskFile | None = None

    def add(self, chunk: WriteSnapshotChunk) -> Checkpoint | None:
        """Returns the synced and verified snapshot after the last chunk. Raises CorruptLogError."""
        path = self._snapshots.path(chunk.id)
        if chunk.position == 0 or chunk.id != self._id or self._file is None:
            self.abandon()
            for id in {chunk.id, self._id or chunk.id}:
                self._disk.unlink(self._snapshots.path(id) + PARTIAL_SUFFIX)
            self._id, self._file = chunk.id, self._disk.open(path + PARTIAL_SUFFIX, create=True)
        assert self._file.size() == chunk.position, "chunks arrive in order"
        self._file.append(chunk.chunk)
        if not chunk.is_last:
            return None
        file, self._file = self._file, None
        seal_checkpoint(self._disk, file, path)
        return read_checkpoint(self._disk, path)

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
