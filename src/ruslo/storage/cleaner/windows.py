"""The segments of a round, divided into windows of whole batches that fit into a buffer.

Keys are read backwards and segments are rewritten forwards; windows can be read in either order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ruslo.model.errors import CorruptLogError
from ruslo.records.batch import (
    ATTRIBUTES,
    CONTROL,
    RECORD_COUNT,
    TRANSACTIONAL,
    HeaderFields,
    size_of,
)
from ruslo.storage.batch_scan import buffer_headers, scan_headers
from ruslo.storage.cleaner.task import SourceSegment
from ruslo.storage.cleaner.throttle import Throttle
from ruslo.storage.disk import Disk, DiskFile
from ruslo.storage.segment import LOG_SUFFIX, segment_stem

_MIN_WINDOW_BYTES = 1 << 20


class Window(NamedTuple):
    position: int
    size: int


class Source:
    """One segment of the round."""

    def __init__(
        self, disk: Disk, log_path: str, segment: SourceSegment, window_bytes: int, throttle: Throttle
    ) -> None:
        self.segment = segment
        self._disk = disk
        self.path = segment_stem(log_path, segment.base_offset) + LOG_SUFFIX
        self._throttle = throttle
        self._file: DiskFile | None = None
        self.is_plain = True
        """Whether the segment has only data batches outside transactions."""
        self.records = 0
        self.windows = list(self._divide(max(window_bytes, _MIN_WINDOW_BYTES)))

    def _divide(self, window_bytes: int) -> Iterator[Window]:
        start = end = 0
        for position, header in scan_headers(self._open(), 0, self.segment.size):
            size = size_of(header)
            if position + size - start > window_bytes and position > start:
                yield Window(start, position - start)
                start = position
            end = position + size
            self.records += header[RECORD_COUNT]
            if header[ATTRIBUTES] & (CONTROL | TRANSACTIONAL) or not header[RECORD_COUNT]:
                self.is_plain = False
        if end != self.segment.size:
            raise CorruptLogError(f"{self.path} has no whole batch at position {end} of {self.segment.size}")
        if end > start:
            yield Window(start, end - start)

    def _open(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def close(self) -> None:
        """Close the file until the next read: a log may have thousands of segments."""
        self._file = None

    def read(self, window: Window) -> tuple[bytes, list[tuple[int, HeaderFields]]]:
        """The bytes of a window, and position and header of each batch in it."""
        data = self._open().pread(window.size, window.position)
        self._throttle.spend(len(data))
        headers = list(buffer_headers(data))
        if len(data) != window.size or not headers or _end_of(headers[-1]) != window.size:
            raise CorruptLogError(f"{self.path} changed at position {window.position} while it was compacted")
        return data, headers


def _end_of(batch: tuple[int, HeaderFields]) -> int:
    return batch[0] + size_of(batch[1])
