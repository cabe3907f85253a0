"""A leader's snapshot, piece by piece, beside its final name: under that it is whole or absent."""

from __future__ import annotations

from ruslo.broker.quorum.checkpoint_file import PARTIAL_SUFFIX, Checkpoint, read_checkpoint, seal_checkpoint
from ruslo.broker.quorum.snapshot_store import SnapshotStore
from ruslo.machines.raft.effects import SnapshotPiece
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.storage.disk import Disk, DiskFile


class SnapshotDownload:
    """Blocking. One at a time: the first piece of another snapshot begins anew."""

    def __init__(self, disk: Disk, snapshots: SnapshotStore) -> None:
        self._disk = disk
        self._snapshots = snapshots
        self._id: SnapshotId | None = None
        self._file: DiskFile | None = None

    def add(self, piece: SnapshotPiece) -> Checkpoint | None:
        """The snapshot, synced and checked, once the last piece has come; CorruptLogError if it is none."""
        path = self._snapshots.path(piece.id)
        if piece.position == 0 or piece.id != self._id or self._file is None:
            self.abandon()
            for id in {piece.id, self._id or piece.id}:
                self._disk.unlink(self._snapshots.path(id) + PARTIAL_SUFFIX)
            self._id, self._file = piece.id, self._disk.open(path + PARTIAL_SUFFIX, create=True)
        assert self._file.size() == piece.position, "pieces come in order"
        self._file.append(piece.piece)
        if not piece.is_last:
            return None
        file, self._file = self._file, None
        seal_checkpoint(self._disk, file, path)
        return read_checkpoint(self._disk, path)

    def abandon(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
