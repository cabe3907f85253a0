"""A segment: consecutive batches in one ``.log`` file, and the indexes of that file.

A segment is either active (appends go to it; its indexes are arrays in memory) or sealed (its indexes are
files). Files are opened on first use, so idle partitions hold no descriptors.
"""

from __future__ import annotations

from ruslo.records.batch import (
    BASE_OFFSET,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    HeaderFields,
    last_offset_of,
    size_of,
)
from ruslo.storage.batch_scan import SCAN_BYTES, scan_headers
from ruslo.storage.disk import Disk, DiskFile
from ruslo.storage.header_walk import CheckedRanges
from ruslo.storage.index import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexFile,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
    floor_position,
    floor_time_offset,
)
from ruslo.storage.txn_index import TransactionIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

_UNKNOWN = -2
"""The largest timestamp has not been read from the time index yet; -1 means that no record has one."""


def segment_stem(log_path: str, base_offset: int) -> str:
    return f"{log_path}/{base_offset:020d}"


class Segment:
    __slots__ = (
        "_file",
        "_index_file",
        "_log_path",
        "_time_index_file",
        "base_offset",
        "bytes_since_index",
        "checked",
        "created_ms",
        "disk",
        "first_timestamp",
        "largest_timestamp",
        "largest_timestamp_offset",
        "offset_index",
        "size",
        "suffix",
        "time_index",
        "txn_index",
    )

    def __init__(
        self, disk: Disk, log_path: str, base_offset: int, size: int, created_ms: int, suffix: str = ""
    ) -> None:
        self.disk = disk
        self.suffix = suffix
        """Suffix of all file names while compaction replaces segments: ``.cleaned`` or ``.swap``."""
        self._log_path = log_path
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.first_timestamp = NO_TIMESTAMP
        """The largest timestamp of the first batch, from which ``segment.ms`` counts. Read on activation."""
        self.largest_timestamp = _UNKNOWN if size else NO_TIMESTAMP
        self.largest_timestamp_offset = base_offset
        """The last offset of the batch with the largest timestamp."""
        self.bytes_since_index = 0
        self.checked: CheckedRanges | None = None
        """Ranges whose headers this process has walked; None if it wrote or recovered the whole segment."""
        self.offset_index: OffsetIndex | None = None
        self.time_index: TimeIndex | None = None
        self.txn_index = TransactionIndex(disk, self.path_of(TXN_INDEX_SUFFIX))
        self._file: DiskFile | None = None
        self._index_file: IndexFile | None = None
        self._time_index_file: IndexFile | None = None

    @property
    def stem(self) -> str:
        return segment_stem(self._log_path, self.base_offset)

    @property
    def file(self) -> DiskFile:
        file = self._file
        if file is None:
            file = self._file = self.disk.open(self.path_of(LOG_SUFFIX))
        return file

    def path_of(self, kind: str) -> str:
        """The path of the segment's file with this suffix."""
        return f"{self._log_path}/{self.base_offset:020d}{kind}{self.suffix}"

    def create_file(self) -> None:
        self._file = self.disk.open(self.path_of(LOG_SUFFIX), create=True)

    def move_to(self, log_path: str) -> None:
        """The partition's directory was renamed; open files stay valid."""
        self._log_path = log_path
        self.txn_index.path = self.path_of(TXN_INDEX_SUFFIX)

    def release_files(self) -> None:
        """Release the descriptors; readers that hold a slice keep theirs."""
        self._file = self._index_file = self._time_index_file = None

    # --- the active segment -------------------------------------------------------------

    def activate(self) -> None:
        """Load the indexes into memory and read what only an active segment needs."""
        if self.offset_index is not None:
            return
        offsets, times = OffsetIndex(), TimeIndex()
        if self.size:
            if self.disk.status(self.path_of(INDEX_SUFFIX)) is not None:
                offsets = OffsetIndex.from_bytes(self.disk.read_file(self.path_of(INDEX_SUFFIX)))
            if self.disk.status(self.path_of(TIME_INDEX_SUFFIX)) is not None:
                times = TimeIndex.from_bytes(self.disk.read_file(self.path_of(TIME_INDEX_SUFFIX)))
        self.offset_index, self.time_index = offsets, times
        self._index_file = self._time_index_file = None
        self._read_tail()

    def _read_tail(self) -> None:
        """Read the largest timestamp and the bytes since the last index entry from the batches after it."""
        assert self.offset_index is not None
        assert self.time_index is not None
        last = self.time_index.last()
        self.largest_timestamp = last.timestamp if last else NO_TIMESTAMP
        self.largest_timestamp_offset = self.base_offset + (last.relative_offset if last else 0)
        self.bytes_since_index = 0
        self.first_timestamp = NO_TIMESTAMP
        if not self.size:
            return
        file = self.file
        for _, header in scan_headers(file, 0, self.size):
            self.first_timestamp = header[MAX_TIMESTAMP]
            break
        start = self.offset_index.positions[-1] if self.offset_index.positions else 0
        for _, header in scan_headers(file, start, self.size):
            if header[MAX_TIMESTAMP] > self.largest_timestamp:
                self.largest_timestamp = header[MAX_TIMESTAMP]
                self.largest_timestamp_offset = last_offset_of(header)
        self.bytes_since_index = self.size - start

    def note_batch(
        self, position: int, last_offset: int, size: int, max_timestamp: int, interval: int
    ) -> None:
        """Update size and indexes for a batch that was written at ``position``."""
        if position == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self.largest_timestamp_offset = last_offset
        if self.bytes_since_index > interval:
            offset_index, time_index, base = self.offset_index, self.time_index, self.base_offset
            assert offset_index is not None
            assert time_index is not None
            offset_index.append(last_offset - base, position)
            time_index.append_if_later(self.largest_timestamp, self.largest_timestamp_offset - base)
            self.bytes_since_index = size
        else:
            self.bytes_since_index += size
        self.size = position + size

    def index_is_full(self, index_bytes: int) -> bool:
        if self.offset_index is None or self.time_index is None:
            return False
        return (
            len(self.offset_index.offsets) >= index_bytes // OFFSET_ENTRY.size
            or len(self.time_index.offsets) >= index_bytes // TIME_ENTRY.size - 1
        )

    def write_indexes(self) -> None:
        """Write the indexes of an active segment, its largest timestamp included; they are not synced."""
        if self.offset_index is None or self.time_index is None:
            return
        self.time_index.append_if_later(
            self.largest_timestamp, self.largest_timestamp_offset - self.base_offset
        )
        self.disk.write_file(self.path_of(INDEX_SUFFIX), self.offset_index.to_bytes())
        self.disk.write_file(self.path_of(TIME_INDEX_SUFFIX), self.time_index.to_bytes())

    def reset_indexes(self) -> None:
        """Start with empty indexes; the caller calls ``note_batch`` for every batch of the file."""
        self.offset_index, self.time_index = OffsetIndex(), TimeIndex()
        self.largest_timestamp, self.largest_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.bytes_since_index = self.size = 0

    def seal(self) -> None:
        """Drop the indexes in memory; those on disk are up to date."""
        self.offset_index = self.time_index = None

    def truncate_to(self, position: int, relative_offset: int) -> None:
        """Truncate an active segment to ``position``, where the batch at ``relative_offset`` starts."""
        assert self.offset_index is not None
        assert self.time_index is not None
        self.file.truncate(position)
        self.size = position
        self.offset_index.truncate_to(relative_offset)
        self.time_index.truncate_to(relative_offset)
        self._read_tail()

    # --- searches -----------------------------------------------------------------------

    def find(self, offset: int) -> tuple[int, HeaderFields] | None:
        """Position and header of the first batch whose last offset is ≥ ``offset``."""
        start = self._start_of_search(offset - self.base_offset) if offset > self.base_offset else 0
        found = self._find_from(start, offset)
        # A damaged index may point between batches or past the end: search the whole segment.
        return self._find_from(0, offset) if found is None and start else found

    def is_shorter_than_index(self) -> bool:
        """Whether the offset index has a position past the end of the ``.log`` file."""
        index = self._sealed_index()
        last = index.last() if index is not None else None
        return last is not None and last[1] >= self.size

    def is_indexed_past(self, end_offset: int) -> bool:
        """Whether the index files have an entry at or past the offset where the ``.log`` file ends."""
        past = end_offset - self.base_offset
        index, times = self._sealed_index(), self._sealed_time_index()
        last = index.last() if index is not None else None
        last_time = times.last() if times is not None else None
        return (last is not None and last[1] > 0 and last[0] >= past) or (
            last_time is not None and last_time[0] > 0 and last_time[1] >= past
        )

    def offset_entries(self) -> OffsetIndex | IndexFile | None:
        return self.offset_index if self.offset_index is not None else self._sealed_index()

    def _start_of_search(self, relative_offset: int) -> int:
        if self.offset_index is not None:
            return self.offset_index.floor_position(relative_offset)
        index = self._sealed_index()
        return floor_position(index, relative_offset) if index is not None else 0

    def _find_from(self, start: int, offset: int) -> tuple[int, HeaderFields] | None:
        first = True
        for position, header in scan_headers(self.file, start, self.size):
            if header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] >= offset:
                return None if first and start and header[BASE_OFFSET] > offset else (position, header)
            first = False
        return None

    def _sealed_index(self) -> IndexFile | None:
        index = self._index_file
        if index is None and self.disk.status(self.path_of(INDEX_SUFFIX)) is not None:
            index = self._index_file = IndexFile(self.disk.open(self.path_of(INDEX_SUFFIX)), OFFSET_ENTRY)
        return index

    def _sealed_time_index(self) -> IndexFile | None:
        index = self._time_index_file
        if index is None and self.disk.status(self.path_of(TIME_INDEX_SUFFIX)) is not None:
            index = self._time_index_file = IndexFile(
                self.disk.open(self.path_of(TIME_INDEX_SUFFIX)), TIME_ENTRY
            )
        return index

    def largest(self) -> TimeEntry:
        """The largest timestamp (-1: none) and the absolute last offset of the batch that has it."""
        if self.largest_timestamp == _UNKNOWN:
            index = self._sealed_time_index()
            last = index.last() if index is not None else None
            if last is not None and self._has_timestamp(*last):
                self.largest_timestamp, self.largest_timestamp_offset = last[0], self.base_offset + last[1]
            else:
                self._read_largest()
            # Retention reads every segment once: do not keep descriptors for that.
            self.release_files()
        return TimeEntry(self.largest_timestamp, self.largest_timestamp_offset)

    def _has_timestamp(self, timestamp: int, relative_offset: int) -> bool:
        """Whether the batch of a time index entry has its timestamp: the index may be damaged."""
        found = self.find(self.base_offset + relative_offset)
        return found is not None and found[1][MAX_TIMESTAMP] == timestamp

    def _read_largest(self) -> None:
        self.largest_timestamp, self.largest_timestamp_offset = NO_TIMESTAMP, self.base_offset
        for _, header in scan_headers(self.file, 0, self.size, SCAN_BYTES):
            if header[MAX_TIMESTAMP] > self.largest_timestamp:
                self.largest_timestamp = header[MAX_TIMESTAMP]
                self.largest_timestamp_offset = last_offset_of(header)

    def timestamp_of_first_batch(self) -> int:
        """The largest timestamp of the first batch, -1 if the segment is empty."""
        if self.first_timestamp == NO_TIMESTAMP and self.size:
            for _, header in scan_headers(self.file, 0, self.size):
                self.first_timestamp = header[MAX_TIMESTAMP]
                break
            self._file = None if self.offset_index is None else self._file
        return self.first_timestamp

    def retention_timestamp(self) -> int:
        """The time that ``retention.ms`` counts from: the largest timestamp, else the file's last change."""
        largest = self.largest().timestamp
        if largest >= 0:
            return largest
        status = self.disk.status(self.path_of(LOG_SUFFIX))
        return status.modified_ms if status is not None else self.created_ms

    def search_start_for_timestamp(self, timestamp: int) -> int:
        """An offset such that every record below it is older than ``timestamp``."""
        if self.time_index is not None:
            relative = self.time_index.floor_offset(timestamp)
        else:
            index = self._sealed_time_index()
            relative = floor_time_offset(index, timestamp) if index is not None else 0
        return self.base_offset + relative

    def next_offset(self) -> int | None:
        """One past the last offset, read from the file; None if the file does not end with a whole batch."""
        if not self.size:
            return self.base_offset
        start = 0
        if self.offset_index is not None:
            start = self.offset_index.positions[-1] if self.offset_index.positions else 0
        elif self.size > SCAN_BYTES >> 4:
            # Smaller files are scanned with one read, without the index.
            index = self._sealed_index()
            last = index.last() if index is not None else None
            start = last[1] if last is not None and last[1] < self.size else 0
        found = self._next_offset_from(start)
        return self._next_offset_from(0) if found is None and start else found

    def _next_offset_from(self, start: int) -> int | None:
        end = None
        reached = start
        for position, header in scan_headers(self.file, start, self.size, SCAN_BYTES >> 4):
            end = last_offset_of(header) + 1
            reached = position + size_of(header)
        return end if reached == self.size else None

    # --- files --------------------------------------------------------------------------

    def existing_files(self) -> list[str]:
        names = (self.path_of(kind) for kind in SUFFIXES)
        return [name for name in names if self.disk.status(name) is not None]

    def rename_to(self, suffix: str) -> None:
        """Give every file another suffix; open files stay valid.

        The ``.log`` file is renamed last: without it, renamed indexes would be taken for another segment's.
        """
        for kind in reversed(SUFFIXES):
            before = self.path_of(kind)
            if kind == LOG_SUFFIX or self.disk.status(before) is not None:
                self.disk.rename(before, before.removesuffix(self.suffix) + suffix)
        self.suffix = suffix
        self.txn_index.path = self.path_of(TXN_INDEX_SUFFIX)

    def mark_deleted(self) -> list[str]:
        """Rename every file to ``….deleted`` and return the new names, to be deleted later."""
        deleted = []
        for name in self.existing_files():
            self.disk.rename(name, name + DELETED_SUFFIX)
            deleted.append(name + DELETED_SUFFIX)
        self.release_files()
        return deleted
