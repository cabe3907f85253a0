"""Reads spans straight from the segments on disk, past the broker that was asked how far they may be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ruslo.model.errors import CorruptLogError
from ruslo.pipeline.decode.batch_table import BatchTable, scan_batches
from ruslo.pipeline.source.chunk import Chunk
from ruslo.pipeline.source.data_loss import report_loss
from ruslo.pipeline.source.log_dirs import check_directory
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import Span
from ruslo.pipeline.source.segment_files import ReadBuffer, SegmentFiles
from ruslo.records.batch import HEADER_SIZE, HeaderFields, read_header
from ruslo.storage.disk import DiskError
from ruslo.storage.segment import Segment
from ruslo.storage.segment_search import find_checked
from ruslo.storage.txn_index import AbortedTransaction

_READ_BYTES: Final = 8 * 1024 * 1024
_ATTEMPTS: Final = 5
"""Times that a file may vanish between its listing and its opening before something else must be wrong."""


def scan_direct(spans: Sequence[Span], options: SourceOptions) -> Iterator[Chunk]:
    """As ``scan_wire``, from files; a chunk's memory is used again when the next chunk is asked for."""
    buffer = ReadBuffer()
    for span in spans:
        assert span.log_dir is not None, "a direct scan was planned"
        check_directory(span.log_dir, span.partition, span.topic_id)
        yield from _SpanScan(span, span.log_dir, options, buffer).chunks()


class _SpanScan:
    def __init__(self, span: Span, directory: str, options: SourceOptions, buffer: ReadBuffer) -> None:
        self._span = span
        self._options = options
        self._files = SegmentFiles(directory)
        self._buffer = buffer
        self._offset = span.start
        self._attempts = 0

    def chunks(self) -> Iterator[Chunk]:
        aborted = (
            self._files.aborted(self._span.start, self._span.end) if self._options.read_committed else []
        )
        while self._offset < self._span.end:
            try:
                for table in self._tables():
                    yield Chunk(self._span, table, _touching(aborted, table))
            except DiskError as error:
                self._attempts += 1
                if not error.not_found or self._attempts > _ATTEMPTS:
                    raise
                self._files.refresh()

    def _tables(self) -> Iterator[BatchTable]:
        """The batches from the offset on that one segment holds, and in any case a step ahead."""
        segment = self._files.at(self._offset)
        found = None if segment is None else self._find(segment)
        if segment is None:
            self._lose(self._span.end)
        elif segment.base_offset > self._offset and self._is_first(segment):
            self._lose(segment.base_offset)
        elif found is None:
            following = self._files.after(segment)
            # Compaction leaves gaps, also at the end of a segment.
            if following is None:
                self._lose(self._span.end)
            else:
                self._offset = following.base_offset
        else:
            yield from self._read(segment, found[0])

    def _find(self, segment: Segment) -> tuple[int, HeaderFields] | None:
        """Where the offset is in a segment; None if it is behind the last batch. Raises if it is damaged."""
        following = self._files.after(segment)
        if following is None:
            # A broker may be writing to it.
            return segment.find(self._offset)
        found = find_checked(segment, self._offset, following.base_offset)
        end_offset = segment.next_offset() if found is None else None
        if end_offset is not None and segment.is_indexed_past(end_offset):
            raise CorruptLogError(
                f"{segment.stem}.log ends at offset {end_offset}, but its indexes know later ones: it is "
                "damaged. Use scan=wire"
            )
        return found

    def _is_first(self, segment: Segment) -> bool:
        return self._files.at(0) is segment

    def _read(self, segment: Segment, position: int) -> Iterator[BatchTable]:
        size = _READ_BYTES
        while position < segment.size and self._offset < self._span.end:
            data = self._buffer.read(segment, position, min(size, segment.size - position))
            table = scan_batches(data, self._span.end)
            next_offset = table.next_offset
            if next_offset is None:
                needed = read_header(data).size if len(data) >= HEADER_SIZE else HEADER_SIZE
                if needed <= len(data) or position + needed > segment.size:
                    raise CorruptLogError(
                        f"{segment.stem}.log has no whole batch at byte {position}, but offsets up to "
                        f"{self._span.end - 1} were there when the query was planned"
                    )
                size = needed
                continue
            size = _READ_BYTES
            position += table.bytes_used
            self._offset = next_offset
            yield table

    def _lose(self, going_on_at: int) -> None:
        going_on_at = min(going_on_at, self._span.end)
        report_loss(
            f"{self._span.partition}: retention or a deletion took offsets {self._offset} to "
            f"{going_on_at - 1}",
            fail=self._options.fail_on_data_loss,
        )
        self._offset = going_on_at


def _touching(aborted: Sequence[AbortedTransaction], table: BatchTable) -> list[AbortedTransaction]:
    first, last = int(table.base_offsets[0]), int(table.last_offsets[-1])
    return [entry for entry in aborted if entry.first_offset <= last and entry.last_offset >= first]
