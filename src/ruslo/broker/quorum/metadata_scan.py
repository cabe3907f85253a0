"""Scans the segments of the metadata log before it is opened.

Opening a log truncates it at the first damaged batch. That is right for the torn tail of a crash, which was
never synced, so never acknowledged. The metadata log must not lose more than that. If a valid batch follows
the damage, the damaged part was written earlier and may be committed: then the operator decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ruslo.broker.quorum.metadata_batches import ControlRecord, read_control
from ruslo.model.errors import CorruptLogError
from ruslo.records.batch import CONTROL, HEADER_SIZE, read_header
from ruslo.records.reader import check_crc
from ruslo.storage.batch_scan import scan_batches
from ruslo.storage.disk import Disk, DiskFile

_SEGMENT: Final = re.compile(r"(\d{20})\.log\Z")
# An offset starts with a zero byte; the magic byte follows 16 bytes later.
_MAYBE_BATCH: Final = re.compile(rb"\x00(?=.{15}\x02)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TornTail:
    path: str
    position: int
    size: int
    """The number of bytes at the end of the file that are not valid batches."""


@dataclass(frozen=True, slots=True)
class MetadataScan:
    control: tuple[tuple[int, ControlRecord], ...]
    """The control records in the log with their offsets."""
    torn_tail: TornTail | None


def scan_metadata_log(disk: Disk, directory: str, from_offset: int) -> MetadataScan:
    """Check every batch from the segment that contains ``from_offset`` on. Raises CorruptLogError."""
    control: list[tuple[int, ControlRecord]] = []
    segments = [
        (base, path) for base, path in _segments(disk, directory) if (disk.status(path) or (0,))[0] > 0
    ]
    first = max((index for index, (base, _) in enumerate(segments) if base <= from_offset), default=0)
    expected: int | None = None
    for index, (base, path) in enumerate(segments[first:], first):
        file = disk.open(path)
        size = file.size()
        end = 0
        next_offset = base if expected is None else expected
        for position, header, batch in scan_batches(file, size):
            if header[0] != next_offset:
                break
            if header[5] & CONTROL:
                control += read_control(batch)
            next_offset = header[0] + header[6] + 1
            end = position + len(batch)
        expected = next_offset
        if end < size:
            followed = index + 1 < len(segments) or _valid_batch_after(file, end, size, next_offset)
            if followed:
                raise _damaged(path, end, next_offset)
            return MetadataScan(tuple(control), TornTail(path, end, size - end))
    return MetadataScan(tuple(control), None)


def _segments(disk: Disk, directory: str) -> Iterator[tuple[int, str]]:
    found = sorted((match[1], name) for name in disk.list_names(directory) if (match := _SEGMENT.match(name)))
    for base, name in found:
        yield int(base), os.path.join(directory, name)


def _valid_batch_after(file: DiskFile, position: int, size: int, next_offset: int) -> bool:
    rest = memoryview(file.pread(size - position, position))
    for match in _MAYBE_BATCH.finditer(rest):
        at = match.start()
        if len(rest) - at < HEADER_SIZE:
            return False
        header = read_header(rest, at)
        plausible = header.base_offset >= next_offset and header.size >= HEADER_SIZE
        if plausible and check_crc(rest[at : at + header.size]):
            return True
    return False


def _damaged(path: str, position: int, offset: int) -> CorruptLogError:
    return CorruptLogError(
        f"The metadata log is damaged: {path} has no valid batch at byte {position}, where offset {offset} "
        "should be, but valid batches follow, so committed metadata would be lost. Restore this directory "
        "from a backup. Without one, accept the loss of topics created or changed since then: truncate the "
        "file "
        f"to {position} bytes, remove the later segments and start again"
    )
