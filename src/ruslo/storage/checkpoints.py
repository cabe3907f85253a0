"""Kafka's checkpoint files: a version, a count, one line per entry. An empty file has no entries.

| file                                                         | line                          |
|--------------------------------------------------------------|-------------------------------|
| ``recovery-point-``, ``log-start-``, ``replication-`` (the   | ``topic partition offset``    |
| high watermarks) and ``cleaner-offset-checkpoint``           |                               |
| ``leader-epoch-checkpoint`` of a partition                   | ``epoch start-offset``        |
| ``ruslo-txnindex-checkpoint`` of a partition                 | ``base-offset size checksum`` |

Only the last one is Ruslo's own; Kafka ignores it. It has the checksum of each segment's transaction index,
to detect damage: an index that differs is rebuilt from the segment, an index without an entry is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from ruslo.model.errors import CorruptLogError
from ruslo.model.topics import TopicPartition
from ruslo.storage.disk import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
TXN_INDEX_CHECKSUMS = "ruslo-txnindex-checkpoint"

_VERSION = "0"


def _lines(data: bytes, path: str) -> list[str]:
    """The entries of a checkpoint file, checked against its version and count."""
    if not data:
        return []
    try:
        version, count, *entries = data.decode("utf-8").splitlines()
        expected = int(count)
    except ValueError:
        raise CorruptLogError(
            f"{path} is not a checkpoint: it does not start with a version and a count"
        ) from None
    if version != _VERSION:
        raise CorruptLogError(f"{path} has version {version!r}, only {_VERSION} is supported")
    if expected != len(entries):
        raise CorruptLogError(f"{path} says that it has {expected} entries, but has {len(entries)}")
    return entries


def _format(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join((_VERSION, str(len(entries)), *entries, "")).encode("utf-8")


def parse_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for line in _lines(data, path):
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CorruptLogError(f"{path}: {line!r} is not 'topic partition offset'") from None
    return offsets


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _format(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def parse_epochs(data: bytes, path: str) -> list[tuple[int, int]]:
    entries: list[tuple[int, int]] = []
    for line in _lines(data, path):
        try:
            epoch, start = line.split(" ")
            entries.append((int(epoch), int(start)))
        except ValueError:
            raise CorruptLogError(f"{path}: {line!r} is not 'epoch start-offset'") from None
    return entries


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _format(f"{epoch} {start}" for epoch, start in entries)


class TxnIndexChecksum(NamedTuple):
    """Size and CRC-32C of a ``.txnindex`` file."""

    size: int
    checksum: int


def parse_txn_index_checksums(data: bytes, path: str) -> dict[int, TxnIndexChecksum]:
    """Checksums by the base offsets of the segments."""
    found: dict[int, TxnIndexChecksum] = {}
    for line in _lines(data, path):
        try:
            base_offset, size, checksum = line.split(" ")
            found[int(base_offset)] = TxnIndexChecksum(int(size), int(checksum))
        except ValueError:
            raise CorruptLogError(f"{path}: {line!r} is not 'base-offset size checksum'") from None
    return found


def format_txn_index_checksums(indexes: Mapping[int, TxnIndexChecksum]) -> bytes:
    return _format(f"{base_offset} {size} {checksum}" for base_offset, (size, checksum) in indexes.items())


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int] | None:
    """The offsets in a checkpoint file; None if the file does not exist."""
    return parse_offsets(disk.read_file(path), path) if disk.status(path) is not None else None


@dataclass(frozen=True, slots=True)
class CheckpointedState:
    """What the checkpoints of a log directory say about one log."""

    clean: bool = True
    """Whether the log directory was shut down cleanly."""
    recovery_point: int = 0
    start_offset: int = 0
    high_watermark: int = 0
    gaps_below: int = 0
    """Below this offset compaction may have left a gap between two segments; past it, a gap is a loss."""
    compacted_below: int = 0
    """Below this offset the log was compacted, whatever ``cleanup.policy`` is now."""


@dataclass(slots=True)
class CheckpointFile:
    """A checkpoint that is written repeatedly, on the event loop or in a thread."""

    disk: Disk
    path: str
    _latest: bytes | None = None
    _prepared: int = 0
    _written: int = 0
    """Number of the prepared write that the file has."""
    _lock: Lock = field(default_factory=Lock)

    def prepare(self, offsets: Mapping[TopicPartition, int]) -> CheckpointWrite | None:
        """Format the offsets for a write; None if the file has them already."""
        data = format_offsets(offsets)
        if data == self._latest and not self.is_behind:
            return None
        self._latest = data
        self._prepared += 1
        return CheckpointWrite(self, data, self._prepared)

    @property
    def is_behind(self) -> bool:
        """Whether a prepared write has not run yet."""
        return self._written < self._prepared

    def write(self, prepared: CheckpointWrite) -> None:
        # A write that waited for a thread must not overwrite a newer one.
        with self._lock:
            if not self.holds(prepared):
                self.disk.replace_file(self.path, prepared.data)
                self._written = prepared.number

    def holds(self, prepared: CheckpointWrite) -> bool:
        return self._written >= prepared.number


@dataclass(frozen=True, slots=True)
class CheckpointWrite:
    file: CheckpointFile
    data: bytes
    number: int

    def run(self) -> None:
        self.file.write(self)

    @property
    def done(self) -> bool:
        """Whether this write, or a newer one, is on disk."""
        return self.file.holds(self)
