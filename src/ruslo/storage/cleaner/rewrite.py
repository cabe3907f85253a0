"""Writes the new segment for a group of old ones.

| batch                                                                  | what is written                  |
|------------------------------------------------------------------------|----------------------------------|
| all records are retained                                               | the same bytes                   |
| some records are retained                                              | a batch with the same offsets    |
| none, but it has the last sequence or marker of an active producer, or | its header alone, to preserve    |
| the last offset of the round                                           | producer state and end offset    |
| none                                                                   | nothing                          |
| has a tombstone or an unneeded marker, and no delete horizon           | the batch with a delete horizon  |
"""

from __future__ import annotations

from ruslo.model.errors import CorruptLogError, ProtocolError
from ruslo.records.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    MAX_TIMESTAMP,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    TRANSACTIONAL,
    BatchHeader,
    HeaderFields,
    last_offset_of,
    size_of,
)
from ruslo.records.batch_filter import filter_batch
from ruslo.records.builder import rebuild_batch
from ruslo.records.compression import decompress
from ruslo.records.control import read_control_type
from ruslo.records.reader import read_records
from ruslo.storage.cleaner.task import NO_DATA, CleanedSegment, CleanTask
from ruslo.storage.cleaner.throttle import Throttle
from ruslo.storage.cleaner.transactions import TransactionWalk
from ruslo.storage.cleaner.verdicts import DISCARD, NEW_TOMBSTONE, RETAIN, Verdicts
from ruslo.storage.cleaner.windows import Source
from ruslo.storage.disk import Disk
from ruslo.storage.leftovers import CLEANED_SUFFIX
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import LOG_SUFFIX, Segment

_WRITE_BYTES = 1 << 20
_SYNC_BYTES = 16 << 20
"""Bytes between syncs: a sync of a gigabyte would delay all other writes to the disk."""


class SegmentRewrite:
    def __init__(
        self,
        disk: Disk,
        task: CleanTask,
        verdicts: Verdicts,
        transactions: TransactionWalk,
        throttle: Throttle,
        base_offset: int,
    ) -> None:
        self._disk = disk
        self._task = task
        self._verdicts = verdicts
        self._transactions = transactions
        self._throttle = throttle
        self._segment = Segment(disk, task.path, base_offset, 0, task.now_ms, CLEANED_SUFFIX)
        for path in self._segment.existing_files():
            disk.unlink(path)
        self._segment.create_file()
        self._segment.activate()
        self._pending: list[bytes | bytearray | memoryview] = []
        self._pending_bytes = 0
        self._unsynced_bytes = 0
        self.records = 0
        """Records in the new segment."""

    def add(self, source: Source) -> None:
        for number, window in enumerate(source.windows):
            data, headers = source.read(window)
            verdicts = self._verdicts.of_window(source, number)
            at = 0
            for position, header in headers:
                count = header[RECORD_COUNT]
                verdict = None if verdicts is None else verdicts[at : at + count]
                at += count
                try:
                    self._add_batch(header, data, position, verdict)
                except ProtocolError as error:
                    message = f"{source.path}: the batch at offset {header[BASE_OFFSET]}: {error}"
                    raise CorruptLogError(message) from error
        source.close()

    def finish(self, modified_ms: int, replaces: list[int]) -> CleanedSegment:
        """Complete the files and sync them; the caller syncs the directory."""
        self._write()
        segment = self._segment
        segment.write_indexes()
        for path in segment.existing_files():
            self._disk.sync_file(path)
        self._disk.set_modified(segment.path_of(LOG_SUFFIX), modified_ms)
        return CleanedSegment(segment.base_offset, segment.size, segment.txn_index.exists, replaces)

    def _add_batch(self, header: HeaderFields, data: bytes, position: int, verdict: bytes | None) -> None:
        task = self._task
        end = position + size_of(header)
        batch = memoryview(data)[position:end]
        if last_offset_of(header) >= task.end_offset:
            aborted = self._transactions.ended_at(header[BASE_OFFSET])
            if aborted is not None:
                self._segment.txn_index.append(aborted)
            self._append(header, batch)
            return
        attributes = header[ATTRIBUTES]
        sets_horizon = False
        if attributes & CONTROL:
            unneeded = self._check_marker(header, batch)
            if unneeded and attributes & DELETE_HORIZON and header[BASE_TIMESTAMP] <= task.now_ms:
                verdict = bytes(header[RECORD_COUNT])
            else:
                sets_horizon = unneeded
                verdict = None
        elif attributes & TRANSACTIONAL and self._transactions.may_drop_data(header):
            verdict = bytes(header[RECORD_COUNT])
        elif verdict is not None and NEW_TOMBSTONE in verdict:
            sets_horizon = True
        if not header[RECORD_COUNT] or (verdict is not None and verdict.count(DISCARD) == len(verdict)):
            if self._must_keep_header(header):
                self._append_header(header, batch)
            return
        sets_horizon = sets_horizon and not attributes & DELETE_HORIZON
        if not sets_horizon and (verdict is None or verdict.count(RETAIN) == len(verdict)):
            self._append(header, batch)
            return
        horizon = task.now_ms + task.delete_retention_ms if sets_horizon else None
        keep = bytes([RETAIN]) * header[RECORD_COUNT] if verdict is None else verdict
        begin = position + HEADER_SIZE
        if attributes & CODEC_MASK:
            data = decompress(attributes & CODEC_MASK, data[begin:end])
            begin, end = 0, len(data)
        changed = filter_batch(
            BatchHeader._make(header), data, keep, begin=begin, end=end, delete_horizon_ms=horizon
        )
        self._append(HEADER.unpack_from(changed), changed)

    def _check_marker(self, header: HeaderFields, batch: memoryview) -> bool:
        """Whether nothing depends on a marker any more; otherwise its index entry is copied."""
        record = next(read_records(batch), None)
        kind = None if record is None else read_control_type(record.key)
        unneeded, aborted = self._transactions.may_drop_marker(header, kind)
        if aborted is not None:
            self._segment.txn_index.append(aborted)
        return unneeded

    def _must_keep_header(self, header: HeaderFields) -> bool:
        last_offset = last_offset_of(header)
        if last_offset + 1 == self._task.end_offset:
            return True
        known = self._task.producers.get(header[PRODUCER_ID]) if header[PRODUCER_ID] >= 0 else None
        if known is None:
            return False
        last_data_offset, epoch = known
        if last_data_offset != NO_DATA:
            return last_offset == last_data_offset
        return bool(header[ATTRIBUTES] & CONTROL) and header[PRODUCER_EPOCH] == epoch

    def _append_header(self, header: HeaderFields, batch: memoryview) -> None:
        bare = batch if not header[RECORD_COUNT] else rebuild_batch(BatchHeader._make(header), [])
        self._append(HEADER.unpack_from(bare), bare)

    def _append(self, header: HeaderFields, batch: bytearray | memoryview) -> None:
        segment = self._segment
        size = len(batch)
        position = segment.size
        if position + size > MAX_RELATIVE_OFFSET:
            raise CorruptLogError(
                f"{segment.stem} exceeds the positions that an index can hold; lower segment.bytes"
            )
        segment.note_batch(
            position, last_offset_of(header), size, header[MAX_TIMESTAMP], self._task.index_interval_bytes
        )
        self.records += header[RECORD_COUNT]
        self._pending.append(batch)
        self._pending_bytes += size
        if self._pending_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._pending:
            self._segment.file.append(b"".join(self._pending))
            self._throttle.spend(self._pending_bytes)
            self._unsynced_bytes += self._pending_bytes
            self._pending.clear()
            self._pending_bytes = 0
            if self._unsynced_bytes >= _SYNC_BYTES:
                self._segment.file.sync()
                self._unsynced_bytes = 0
