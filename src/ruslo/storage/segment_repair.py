"""Rewrites a sealed segment from its own sound batches and from batches of another replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.model.buffers import ReadBuffer
from ruslo.records.batch import MAX_TIMESTAMP, HeaderFields, last_offset_of, size_of
from ruslo.storage.batch_scan import scan_headers
from ruslo.storage.cleaner.task import CleanedSegment
from ruslo.storage.leftovers import CLEANED_SUFFIX
from ruslo.storage.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX, Segment

if TYPE_CHECKING:
    from ruslo.storage.log import Log

_COPY_BYTES = 1 << 20


class SegmentRepair:
    """The new segment has ``….cleaned`` names; ``SegmentSwap`` replaces the old one by it."""

    def __init__(self, log: Log, damaged: Segment) -> None:
        self._log = log
        self._damaged = damaged
        self._source = damaged.file
        self._interval = log.config.index_interval_bytes
        status = log.disk.status(damaged.path_of(LOG_SUFFIX))
        self._modified_ms = status.modified_ms if status is not None else damaged.created_ms
        self._segment = Segment(
            log.disk, log.path, damaged.base_offset, 0, damaged.created_ms, CLEANED_SUFFIX
        )
        self.discard()
        self._segment.create_file()
        self._segment.reset_indexes()

    def copy(self, start: int, stop: int) -> None:
        """Copy sound batches of the damaged segment."""
        for position, header in scan_headers(self._source, start, stop, _COPY_BYTES):
            size = size_of(header)
            self._append(self._source.pread(size, position), header)

    def add(self, data: ReadBuffer, position: int, header: HeaderFields) -> None:
        """Add a batch of another replica."""
        self._append(memoryview(data)[position : position + size_of(header)], header)

    def _append(self, batch: ReadBuffer, header: HeaderFields) -> None:
        segment = self._segment
        segment.file.append(batch)
        last_offset = last_offset_of(header)
        segment.note_batch(segment.size, last_offset, len(batch), header[MAX_TIMESTAMP], self._interval)

    def finish(self) -> CleanedSegment:
        """Complete the files and sync them."""
        segment, disk = self._segment, self._log.disk
        segment.write_indexes()
        if self._damaged.txn_index.exists:
            # It was written with the markers, and has those that are damaged now.
            data = disk.read_file(self._damaged.path_of(TXN_INDEX_SUFFIX))
            disk.write_file(segment.path_of(TXN_INDEX_SUFFIX), data)
        for path in segment.existing_files():
            disk.sync_file(path)
        disk.set_modified(segment.path_of(LOG_SUFFIX), self._modified_ms)
        disk.sync_directory(self._log.path)
        return CleanedSegment(
            segment.base_offset, segment.size, self._damaged.txn_index.exists, [segment.base_offset]
        )

    def discard(self) -> None:
        for path in self._segment.existing_files():
            self._log.disk.unlink(path)
