"""A checkpoint: metadata in a file of its own, in Kafka's layout.

- a control batch with the snapshot header and, under kraft.version 1, KRaftVersion and Voters
- data batches; their offsets count from 0 and are unrelated to the log
- a control batch with the footer, which proves that nothing is missing at the end

Snapshots of the metadata log and the ``bootstrap.checkpoint`` of a fresh log directory have this form.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ruslo.broker.quorum.metadata_batches import (
    ControlRecord,
    VersionedRecord,
    control_batch,
    data_batch,
    read_control,
    read_data,
)
from ruslo.model.errors import CorruptLogError, ProtocolError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from ruslo.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from ruslo.records.reader import check_crc, iter_batches
from ruslo.storage.disk import Disk, DiskError, DiskFile

PARTIAL_SUFFIX = ".part"
_RECORDS_PER_BATCH = 1_000
_READ_ONLY = 0o400


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose batches are complete and have valid checksums."""

    path: str
    last_timestamp_ms: int
    """The timestamp of the last log record in it."""
    control: tuple[ControlRecord, ...]
    """KRaftVersion and Voters, if present."""
    _data: tuple[memoryview, ...]

    def records(self) -> Iterator[Message]:
        for batch in self._data:
            yield from read_data(batch)


def write_checkpoint(
    disk: Disk,
    path: str,
    *,
    epoch: int,
    control: Sequence[ControlRecord],
    records: Iterable[VersionedRecord],
    last_timestamp_ms: int,
    now_ms: int,
    read_only: bool = False,
) -> int:
    """Write a temporary file, sync and rename it, so ``path`` is complete or absent. Returns the size."""
    partial = path + PARTIAL_SUFFIX
    disk.unlink(partial)
    file = disk.open(partial, create=True)
    try:
        header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
        opening = (header, *control)
        file.append(control_batch(opening, base_offset=0, epoch=epoch, timestamp_ms=now_ms))
        offset = len(opening)
        for chunk in _chunks(records):
            file.append(data_batch(chunk, base_offset=offset, epoch=epoch, timestamp_ms=now_ms))
            offset += len(chunk)
        footer = SnapshotFooterRecord(version=0)
        file.append(control_batch((footer,), base_offset=offset, epoch=epoch, timestamp_ms=now_ms))
        size = file.size()
        seal_checkpoint(disk, file, path, read_only=read_only)
    except BaseException:
        file.close()
        with contextlib.suppress(DiskError):  # Report the first failure.
            disk.unlink(partial)
        raise
    return size


def seal_checkpoint(disk: Disk, file: DiskFile, path: str, *, read_only: bool = True) -> None:
    """Sync and close the file with the partial name and rename it."""
    if read_only:
        _make_read_only(file)
    file.sync()
    file.close()
    disk.rename(path + PARTIAL_SUFFIX, path)
    disk.sync_directory(os.path.dirname(path))


def read_checkpoint(disk: Disk, path: str) -> Checkpoint:
    """Raises CorruptLogError unless it is complete from header to footer and every checksum matches."""
    content = memoryview(disk.read_file(path))
    control: list[ControlRecord] = []
    data: list[memoryview] = []
    end = 0
    try:
        for position, header in iter_batches(content):
            end = position + header.size
            batch = content[position:end]
            if not check_crc(batch):
                raise CorruptLogError(f"{path} is damaged: wrong checksum at byte {position}")
            if header.is_control:
                control += [record for _, record in read_control(batch)]
            else:
                data.append(batch)
    except ProtocolError as error:
        raise CorruptLogError(f"{path} is damaged: {error}") from error
    if end != len(content) or len(control) < 2:
        raise CorruptLogError(f"{path} is not a complete checkpoint: it is truncated")
    first, *between, last = control
    if not isinstance(first, SnapshotHeaderRecord) or not isinstance(last, SnapshotFooterRecord):
        raise CorruptLogError(f"{path} is not a complete checkpoint: it lacks the header or the footer")
    return Checkpoint(path, first.last_contained_log_timestamp, tuple(between), tuple(data))


def _chunks(records: Iterable[VersionedRecord]) -> Iterator[list[VersionedRecord]]:
    remaining = iter(records)
    while chunk := list(itertools.islice(remaining, _RECORDS_PER_BATCH)):
        yield chunk


def _make_read_only(file: DiskFile) -> None:
    """As in Kafka, so that a snapshot is not edited by accident."""
    try:
        descriptor = file.fileno()
    except OSError:
        return  # A simulated disk has neither descriptors nor permissions.
    os.fchmod(descriptor, _READ_ONLY)
