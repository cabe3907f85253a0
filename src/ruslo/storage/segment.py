"""A segment: a run of batches in one ``.log`` file, with its indexes beside it.

A segment is either active (it grows; its indexes are arrays in memory) or sealed (its indexes are files).
Files are opened when first needed, so that a broker with thousands of idle partitions holds no descriptors
for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crc32c import crc32c

from ruslo.model.errors import CorruptLogError
from ruslo.records.batch import (
    BASE_OFFSET,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    HeaderFields,
    last_offset_of,
    size_of,
)
from ruslo.storage import txn_index
from ruslo.storage.batch_scan import SCAN_BYTES, scan_headers
from ruslo.storage.checkpoints import AbortIndex
from ruslo.storage.damage import DamagedRange
from ruslo.storage.disk import Disk, DiskError, DiskFile
from ruslo.storage.header_walk import CheckedRanges, walk_headers
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
from ruslo.storage.txn_index import AbortedTransaction

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

CHECK_BYTES = 1 << 20
_EARLIER_ENTRIES = 8
"""Index entries before the best one that a search tries before it walks the segment from its beginning."""
_LATER_ENTRIES = 1024
"""Index entries behind a damaged range that are tried to find where the range ends."""

UNKNOWN = -2
"""A largest timestamp that has not been read from the time index yet; -1 means that there is none."""


def segment_stem(log_path: str, base_offset: int) -> str:
    return f"{log_path}/{base_offset:020d}"


class Segment:
    __slots__ = (
        "_abort_index",
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
        "has_aborts",
        "largest_timestamp",
        "largest_timestamp_offset",
        "offset_index",
        "size",
        "suffix",
        "time_index",
    )

    def __init__(
        self, disk: Disk, log_path: str, base_offset: int, size: int, created_ms: int, suffix: str = ""
    ) -> None:
        self.disk = disk
        self.suffix = suffix
        """Behind the names of all files while compaction is at work on them: ``.cleaned``, ``.swap``."""
        self._log_path = log_path
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.first_timestamp = NO_TIMESTAMP
        """Largest of the first batch; rolling by time counts from it. Read when a segment becomes active."""
        self.largest_timestamp = UNKNOWN if size else NO_TIMESTAMP
        self.largest_timestamp_offset = base_offset
        """The last offset of the batch that brought the largest timestamp."""
        self.bytes_since_index = 0
        self.has_aborts = False
        self.checked: CheckedRanges | None = None
        """Which headers were walked since the start; None if this process wrote or recovered the segment."""
        self.offset_index: OffsetIndex | None = None
        self.time_index: TimeIndex | None = None
        self._abort_index: AbortIndex | None = None
        """What the transaction index held when this process last wrote or read all of it."""
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
        """The name of one of the segment's files, by its ending."""
        return f"{self._log_path}/{self.base_offset:020d}{kind}{self.suffix}"

    def create_file(self) -> None:
        self._file = self.disk.open(self.path_of(LOG_SUFFIX), create=True)

    def move_to(self, log_path: str) -> None:
        """The partition's directory was renamed; open files stay valid."""
        self._log_path = log_path

    def release_files(self) -> None:
        """Let go of the descriptors; readers that hold a slice keep theirs."""
        self._file = self._index_file = self._time_index_file = None

    # --- growing ------------------------------------------------------------------------

    def activate(self) -> None:
        """Bring the indexes into memory and read what only a growing segment must know."""
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
        """Largest timestamp and bytes since the last index entry: the walk from that entry to the end."""
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
        """Index bookkeeping for a batch that was written at ``position``."""
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
        """Write the indexes of an active segment, ended by its largest timestamp; not synced."""
        if self.offset_index is None or self.time_index is None:
            return
        self.time_index.append_if_later(
            self.largest_timestamp, self.largest_timestamp_offset - self.base_offset
        )
        self.disk.write_file(self.path_of(INDEX_SUFFIX), self.offset_index.to_bytes())
        self.disk.write_file(self.path_of(TIME_INDEX_SUFFIX), self.time_index.to_bytes())

    def begin_indexes(self) -> None:
        """Empty ones: every batch that is in the file already is to be noted again."""
        self.offset_index, self.time_index = OffsetIndex(), TimeIndex()
        self.largest_timestamp, self.largest_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.bytes_since_index = self.size = 0

    def seal(self) -> None:
        """The indexes are on disk: forget those in memory."""
        self.offset_index = self.time_index = None

    def truncate_to(self, position: int, relative_offset: int) -> None:
        """Cut an active segment before the batch at ``position`` that begins at ``relative_offset``."""
        assert self.offset_index is not None
        assert self.time_index is not None
        self.file.truncate(position)
        self.size = position
        self.offset_index.truncate_to(relative_offset)
        self.time_index.truncate_to(relative_offset)
        self._read_tail()

    # --- looking things up --------------------------------------------------------------

    def find(self, offset: int) -> tuple[int, HeaderFields] | None:
        """Position and header of the first batch whose last offset is ≥ ``offset``."""
        start = self._start_of_search(offset - self.base_offset) if offset > self.base_offset else 0
        found = self._find_from(start, offset)
        # An index that points between batches, or past the end, says nothing: go through the whole segment.
        return self._find_from(0, offset) if found is None and start else found

    def locate(self, offset: int, limit: int) -> tuple[int, HeaderFields] | None:
        """As ``find``, in a segment that may be damaged: raises DamagedRange if the way there is.

        ``limit``: every offset of the segment is below it.
        """
        found = self.find(offset)
        if self.checked is None or (found is not None and self.checked.cover(found[0], found[0] + 1)):
            return found
        index = self._offset_entries()
        at = index.count_below(offset - self.base_offset + 1, 0) if index is not None else 0
        for entry in range(at - 1, max(at - 1 - _EARLIER_ENTRIES, -1), -1):
            assert index is not None
            start = index.entry(entry)
            header = self._matches(start, limit)
            if header is not None and header[BASE_OFFSET] <= offset:
                return self._walk_past_damage(start[1], None, offset, limit)
        return self._walk_past_damage(0, self.base_offset, offset, limit)

    def _walk_past_damage(
        self, start: int, expected: int | None, offset: int, limit: int
    ) -> tuple[int, HeaderFields] | None:
        """Walk to an offset. If there is damage on the way, the index may still know where the offset is."""
        try:
            for position, header in walk_headers(self.file, start, self.size, expected, limit):
                if header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] >= offset:
                    return position, header
        except DamagedRange as damaged:
            found = self._locate_behind_damage(offset, damaged.position, limit)
            if found is not None:
                return found
            raise
        return None

    def _locate_behind_damage(
        self, offset: int, position: int, limit: int
    ) -> tuple[int, HeaderFields] | None:
        """The batch that holds ``offset``, if it is the first sound one that the index knows behind it."""
        found = self.first_indexed_behind(position, limit)
        if found is not None and found[1][BASE_OFFSET] <= offset <= last_offset_of(found[1]):
            return found
        return None

    def first_indexed_behind(self, position: int, limit: int) -> tuple[int, HeaderFields] | None:
        """The first batch behind a position that the offset index knows and that is where it says."""
        index = self._offset_entries()
        if index is None:
            return None
        first = index.count_below(position + 1, 1)
        for at in range(first, min(first + _LATER_ENTRIES, len(index))):
            entry = index.entry(at)
            header = self._matches(entry, limit)
            if header is not None:
                return entry[1], header
        return None

    def _matches(self, entry: tuple[int, int], limit: int) -> HeaderFields | None:
        """The header of the batch that an entry of the offset index names; None if they do not agree."""
        offset, position = self.base_offset + entry[0], entry[1]
        for at, header in scan_headers(self.file, position, self.size):
            is_here = (
                at == position
                and last_offset_of(header) == offset
                and 0 <= header[LAST_OFFSET_DELTA] <= entry[0]
            )
            return header if is_here and offset < limit else None
        return None

    def _offset_entries(self) -> OffsetIndex | IndexFile | None:
        return self.offset_index if self.offset_index is not None else self._sealed_index()

    def confirm(self, position: int, size: int, header: HeaderFields, limit: int) -> int:
        """How many of the bytes that a read wants, from a batch on, may be sent: those with sound headers.

        Headers are walked once, about ``CHECK_BYTES`` at a time. Raises DamagedRange if none may be sent.
        """
        checked = self.checked
        if checked is None or checked.cover(position, min(position + size, self.size)):
            return size
        stop = min(position + min(size, CHECK_BYTES), self.size)
        reached = position
        try:
            for at, each in walk_headers(self.file, position, self.size, header[BASE_OFFSET], limit):
                if at >= stop and at > position:
                    break
                reached = at + size_of(each)
        except DamagedRange:
            if reached == position:
                raise
            stop = reached
        checked.add(position, reached)
        first = size_of(header)
        return min(size, max(stop - position, first))

    def is_shorter_than_index(self) -> bool:
        """Whether the offset index names a position that the log of the segment does not reach."""
        index = self._sealed_index()
        last = index.last() if index is not None else None
        return last is not None and last[1] >= self.size

    def knows_offsets_past(self, end_offset: int) -> bool:
        """Whether the index files name records at or behind an offset where the log of the segment ends."""
        past = end_offset - self.base_offset
        index, times = self._sealed_index(), self._sealed_time_index()
        last = index.last() if index is not None else None
        last_time = times.last() if times is not None else None
        return (last is not None and last[1] > 0 and last[0] >= past) or (
            last_time is not None and last_time[0] > 0 and last_time[1] >= past
        )

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

    def next_indexed_offset(self, position: int, limit: int) -> int | None:
        """The offset of the first index entry at or past a position; None if there is none to rely on."""
        index = self._offset_entries()
        at = index.count_below(position, 1) if index is not None else 0
        if index is None or at == len(index):
            return None
        entry = index.entry(at)
        if self.checked is not None and (entry[1] < position or self._matches(entry, limit) is None):
            return None
        return self.base_offset + entry[0]

    def largest(self) -> TimeEntry:
        """The largest timestamp (-1: none) and the absolute last offset of the batch that brought it."""
        if self.largest_timestamp == UNKNOWN:
            index = self._sealed_time_index()
            last = index.last() if index is not None else None
            if last is not None and self._brought(*last):
                self.largest_timestamp, self.largest_timestamp_offset = last[0], self.base_offset + last[1]
            else:
                self._read_largest()
            # Retention asks every segment once; none of them should keep descriptors for it.
            self.release_files()
        return TimeEntry(self.largest_timestamp, self.largest_timestamp_offset)

    def _brought(self, timestamp: int, relative_offset: int) -> bool:
        """Whether the batch that a time entry names has that timestamp: retention must not trust bit rot."""
        found = self.find(self.base_offset + relative_offset)
        return found is not None and found[1][MAX_TIMESTAMP] == timestamp

    def _read_largest(self) -> None:
        self.largest_timestamp, self.largest_timestamp_offset = NO_TIMESTAMP, self.base_offset
        for _, header in scan_headers(self.file, 0, self.size, SCAN_BYTES):
            if header[MAX_TIMESTAMP] > self.largest_timestamp:
                self.largest_timestamp = header[MAX_TIMESTAMP]
                self.largest_timestamp_offset = last_offset_of(header)

    def timestamp_of_first_batch(self) -> int:
        """The largest timestamp of the first batch, -1 if there is none."""
        if self.first_timestamp == NO_TIMESTAMP and self.size:
            for _, header in scan_headers(self.file, 0, self.size):
                self.first_timestamp = header[MAX_TIMESTAMP]
                break
            self._file = None if self.offset_index is None else self._file
        return self.first_timestamp

    def retention_timestamp(self) -> int:
        """The age of the segment: its largest timestamp, or the file's last modification if it has none."""
        largest = self.largest().timestamp
        if largest >= 0:
            return largest
        status = self.disk.status(self.path_of(LOG_SUFFIX))
        return status.modified_ms if status is not None else self.created_ms

    def search_start_for_timestamp(self, timestamp: int) -> int:
        """An offset before which every record is older than ``timestamp``."""
        if self.time_index is not None:
            relative = self.time_index.floor_offset(timestamp)
        else:
            index = self._sealed_time_index()
            relative = floor_time_offset(index, timestamp) if index is not None else 0
        return self.base_offset + relative

    def next_offset(self) -> int | None:
        """One past the last offset, read from the file's end; None if that is not the end of a batch."""
        if not self.size:
            return self.base_offset
        start = 0
        if self.offset_index is not None:
            start = self.offset_index.positions[-1] if self.offset_index.positions else 0
        elif self.size > SCAN_BYTES >> 4:
            # Only a file worth an index look-up; smaller ones are walked in one read.
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

    # --- aborted transactions -----------------------------------------------------------

    def append_abort(self, aborted: AbortedTransaction) -> None:
        """Add an entry; on a DiskError that is not ``fatal`` nothing of it has stayed."""
        index = self.disk.open(self.path_of(TXN_INDEX_SUFFIX), create=True)
        before = index.size()
        data = aborted.to_bytes()
        known = self._abort_index or AbortIndex(0, 0)
        try:
            index.append(data)
        except DiskError as error:
            index.truncate(before)
            error.fatal = error.fatal and not error.disk_full
            raise
        self.has_aborts = True
        is_known = known.size == before
        self._abort_index = AbortIndex(before + len(data), crc32c(data, known.checksum)) if is_known else None

    def abort_index(self) -> AbortIndex:
        """What the transaction index holds."""
        if self._abort_index is None:
            data = self.disk.read_file(self.path_of(TXN_INDEX_SUFFIX)) if self.has_aborts else b""
            self._abort_index = AbortIndex(len(data), crc32c(data))
        return self._abort_index

    def continues_abort_index(self, known: AbortIndex) -> bool:
        """Whether the transaction index begins with what was known of it; Apache Kafka may have gone on."""
        if self.abort_index() == known:
            return True
        data = self.disk.read_file(self.path_of(TXN_INDEX_SUFFIX)) if self.has_aborts else b""
        return len(data) > known.size and crc32c(data[: known.size]) == known.checksum

    def aborts(self, from_offset: int = 0) -> Iterator[AbortedTransaction]:
        """The aborted transactions whose marker is in this segment, at or past an offset.

        Raises CorruptLogError if the transaction index is not what was written or read before: without it
        consumers would be shown records of aborted transactions.
        """
        if self.has_aborts:
            path = self.path_of(TXN_INDEX_SUFFIX)
            data = self.disk.read_file(path)
            known = self._abort_index
            if known is not None and known != (len(data), crc32c(data)):
                raise CorruptLogError(f"{path} is damaged: it is not what was written. Restart the broker")
            yield from txn_index.parse(data, path, from_offset)

    def replace_aborts(self, aborts: Iterable[AbortedTransaction]) -> None:
        """Write the transaction index again, from what the segment says."""
        data = b"".join(aborted.to_bytes() for aborted in aborts)
        self.disk.replace_file(self.path_of(TXN_INDEX_SUFFIX), data)
        self.has_aborts = bool(data)
        self._abort_index = AbortIndex(len(data), crc32c(data))

    def drop_aborts(self) -> None:
        """Remove the transaction index, to rebuild it."""
        self.disk.unlink(self.path_of(TXN_INDEX_SUFFIX))
        self.has_aborts = False
        self._abort_index = None

    def keep_aborts_below(self, offset: int) -> None:
        """After a truncation: drop the entries whose marker is gone."""
        if not self.has_aborts:
            return
        # They are in the order of their markers: what goes is the end of the file, and a cut needs no room.
        kept = sum(aborted.last_offset < offset for aborted in self.aborts())
        self.disk.open(self.path_of(TXN_INDEX_SUFFIX)).truncate(kept * txn_index.ENTRY.size)
        self.has_aborts = kept > 0
        self._abort_index = None

    # --- going --------------------------------------------------------------------------

    def existing_files(self) -> list[str]:
        names = (self.path_of(kind) for kind in SUFFIXES)
        return [name for name in names if self.disk.status(name) is not None]

    def rename_to(self, suffix: str) -> None:
        """Give every file another suffix; open files stay valid.

        The log comes last, so that indexes with a suffix never lack it: alone they would be taken for others.
        """
        for kind in reversed(SUFFIXES):
            before = self.path_of(kind)
            if kind == LOG_SUFFIX or self.disk.status(before) is not None:
                self.disk.rename(before, before.removesuffix(self.suffix) + suffix)
        self.suffix = suffix

    def mark_deleted(self) -> list[str]:
        """Rename every file to ``….deleted`` and return the new names, for unlinking later."""
        deleted = []
        for name in self.existing_files():
            self.disk.rename(name, name + DELETED_SUFFIX)
            deleted.append(name + DELETED_SUFFIX)
        self.release_files()
        return deleted
