"""Reads offset ranges directly from segment files. Only the bounds of the ranges come from the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ruslo.model.errors import CorruptLogError
from ruslo.pipeline.decode.batch_table import BatchTable, scan_batches
from ruslo.pipeline.source.chunk import Chunk
from ruslo.pipeline.source.data_loss import report_loss
from ruslo.pipeline.source.log_dirs import check_directory
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import OffsetRange
from ruslo.pipeline.source.segment_files import ReadBuffer, SegmentFiles
from ruslo.records.batch import HEADER_SIZE, HeaderFields, read_header
from ruslo.storage.disk import DiskError
from ruslo.storage.segment import Segment
from ruslo.storage.segment_search import find_checked
from ruslo.storage.txn_index import AbortedTransaction

_READ_BYTES: Final = 8 * 1024 * 1024
_ATTEMPTS: Final = 5
"""How often a file may disappear between listing and opening before the error is reported."""


def scan_direct(ranges: Sequence[OffsetRange], options: SourceOptions) -> Iterator[Chunk]:
    """Like ``scan_wire``, but from files. The next chunk reuses the memory of the previous one."""
    buffer = ReadBuffer()
    for offset_range in ranges:
        assert offset_range.log_dir is not None, "a direct scan was planned"
        check_directory(offset_range.log_dir, offset_range.partition, offset_range.topic_id)
        yield from _RangeScan(offset_range, offset_range.log_dir, options, buffer).chunks()


class _RangeScan:
    def __init__(
        self, offset_range: OffsetRange, directory: str, options: SourceOptions, buffer: ReadBuffer
    ) -> None:
        self._range = offset_range
        self._options = options
        self._files = SegmentFiles(directory)
        self._buffer = buffer
        self._offset = offset_range.start
        self._attempts = 0

    def chunks(self) -> Iterator[Chunk]:
        aborted = (
            self._files.aborted(self._range.start, self._range.end) if self._options.read_committed else []
        )
        while self._offset < self._range.end:
            try:
                for table in self._tables():
                    yield Chunk(self._range, table, _touching(aborted, table))
            except DiskError as error:
                self._attempts += 1
                if not error.not_found or self._attempts > _ATTEMPTS:
                    raise
                self._files.refresh()

    def _tables(self) -> Iterator[BatchTable]:
        """The batches of the segment at the current offset; always advances the offset."""
        segment = self._files.at(self._offset)
        found = None if segment is None else self._find(segment)
        if segment is None:
            self._skip_lost(self._range.end)
        elif segment.base_offset > self._offset and self._files.at(0) is segment:
            self._skip_lost(segment.base_offset)
        elif found is None:
            following = self._files.after(segment)
            # Compaction leaves gaps, also at the end of a segment.
            if following is None:
                self._skip_lost(self._range.end)
            else:
                self._offset = following.base_offset
        else:
            yield from self._read(segment, found[0])

    def _find(self, segment: Segment) -> tuple[int, HeaderFields] | None:
        """The position of the offset in a segment; None if it is past the last batch. Raises if damaged."""
        following = self._files.after(segment)
        if following is None:
            # The broker may be appending to this segment.
            return segment.find(self._offset)
        found = find_checked(segment, self._offset, following.base_offset)
        end_offset = segment.next_offset() if found is None else None
        if end_offset is not None and segment.is_indexed_past(end_offset):
            raise CorruptLogError(
                f"{segment.stem}.log is damaged: it ends at offset {end_offset}, but its indexes contain "
                "later offsets. Use scan=wire"
            )
        return found

    def _read(self, segment: Segment, position: int) -> Iterator[BatchTable]:
        size = _READ_BYTES
        while position < segment.size and self._offset < self._range.end:
            data = self._buffer.read(segment, position, min(size, segment.size - position))
            table = scan_batches(data, self._range.end)
            next_offset = table.next_offset
            if next_offset is None:
                needed = read_header(data).size if len(data) >= HEADER_SIZE else HEADER_SIZE
                if needed <= len(data) or position + needed > segment.size:
                    raise CorruptLogError(
                        f"{segment.stem}.log has no complete batch at byte {position}, but offsets up to "
                        f"{self._range.end - 1} existed when the query was planned. Use scan=wire"
                    )
                size = needed
                continue
            size = _READ_BYTES
            position += table.bytes_used
            self._offset = next_offset
            yield table

    def _skip_lost(self, next_offset: int) -> None:
        next_offset = min(next_offset, self._range.end)
        report_loss(
            f"{self._range.partition}: retention or a deletion removed offsets {self._offset} to "
            f"{next_offset - 1}",
            fail=self._options.fail_on_data_loss,
        )
        self._offset = next_offset


def _touching(aborted: Sequence[AbortedTransaction], table: BatchTable) -> list[AbortedTransaction]:
    first, last = int(table.base_offsets[0]), int(table.last_offsets[-1])
    return [entry for entry in aborted if entry.first_offset <= last and entry.last_offset >= first]
