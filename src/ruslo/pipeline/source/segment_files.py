"""The segments of a partition as seen by another process: read-only, while the broker continues to append.

Bytes below the high watermark never change. Segments are rolled, deleted and compacted, so a missing file
means that the directory has to be listed again.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from ruslo.model.errors import ConfigError
from ruslo.storage.disk import DiskError
from ruslo.storage.header_walk import CheckedRanges
from ruslo.storage.local_disk import LocalDisk, LocalFile
from ruslo.storage.log_reader import aborted_transactions
from ruslo.storage.partition_files import offset_of
from ruslo.storage.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX, Segment
from ruslo.storage.txn_index import AbortedTransaction


class ReadOnlyDisk(LocalDisk):
    """Needs only permission to read."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        assert not create, "the broker's files are only read"
        try:
            return LocalFile(self.directory, path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as cause:
            raise DiskError(self.directory, path, "open", cause) from cause


class ReadBuffer:
    """A reused buffer: allocating a new one costs more than reading into it."""

    def __init__(self) -> None:
        self._memory = bytearray()

    def read(self, segment: Segment, position: int, size: int) -> memoryview:
        """Up to ``size`` bytes from ``position``, valid until the next call."""
        if len(self._memory) < size:
            self._memory = bytearray(size)
        target = memoryview(self._memory)[:size]
        file = segment.file
        assert isinstance(file, LocalFile), "ReadOnlyDisk opens local files"
        done = 0
        try:
            while done < size:
                read = os.preadv(file.fileno(), [target[done:]], position + done)
                if not read:
                    break
                done += read
        except OSError as cause:
            raise DiskError(segment.disk.directory, segment.stem + LOG_SUFFIX, "read", cause) from cause
        return target[:done]


class SegmentFiles:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._disk = ReadOnlyDisk(directory)
        self._segments: list[Segment] = []
        self.refresh()

    def refresh(self) -> None:
        """List the segments again."""
        try:
            names = self._disk.list_names(self._directory)
        except DiskError as error:
            raise ConfigError(f"scan=direct: {error}; use scan=wire") from error
        bases = sorted(
            base for name in names if name.endswith(LOG_SUFFIX) and (base := offset_of(name)) is not None
        )
        with_aborts = {offset_of(name) for name in names if name.endswith(TXN_INDEX_SUFFIX)}
        segments: list[Segment] = []
        for base in bases:
            status = self._disk.status(f"{self._directory}/{base:020d}{LOG_SUFFIX}")
            if status is None:
                continue  # deleted since the listing
            segment = Segment(self._disk, self._directory, base, status.size, status.modified_ms)
            segment.txn_index.exists = base in with_aborts
            segment.checked = CheckedRanges()
            segments.append(segment)
        self._segments = segments

    def at(self, offset: int) -> Segment | None:
        """The segment that contains an offset, or the next one after it."""
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        if at < 0:
            return self._segments[0] if self._segments else None
        segment = self._segments[at]
        if at + 1 == len(self._segments):
            # The broker keeps the indexes of its active segment in memory, or padded with zeros.
            segment.activate()
        return segment

    def after(self, segment: Segment) -> Segment | None:
        return next((other for other in self._segments if other.base_offset > segment.base_offset), None)

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap start ≤ offset < end, as a broker would return them."""
        return aborted_transactions(self._segments, start, end)
