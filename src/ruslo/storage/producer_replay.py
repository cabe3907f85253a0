"""Rebuilds the producer state from batches of the log: recovery, truncation, follower appends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import CorruptLogError, ProtocolError
from ruslo.records.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    MAX_TIMESTAMP,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TRANSACTIONAL,
    HeaderFields,
    size_of,
)
from ruslo.records.control import (
    END_RECORD,
    END_RECORD_START,
    END_VALUE_LENGTH,
    ControlType,
    read_control_type,
    read_coordinator_epoch,
)
from ruslo.records.reader import read_records
from ruslo.storage.batch_scan import SCAN_BYTES, scan_headers
from ruslo.storage.disk import Disk
from ruslo.storage.log_reader import segment_at
from ruslo.storage.producer_snapshot import EMPTY_SIZE, decode_snapshot, snapshot_path
from ruslo.storage.producer_state import ProducerStates, TransactionMarker
from ruslo.storage.segment import Segment
from ruslo.storage.txn_index import AbortedTransaction

_COMMIT = int(ControlType.COMMIT)
_MARKER_KINDS = (int(ControlType.ABORT), _COMMIT)


def read_marker(batch: ReadBuffer) -> TransactionMarker | None:
    """The transaction marker in a control batch; None for every other batch."""
    header: HeaderFields = HEADER.unpack_from(batch)
    if header[ATTRIBUTES] & (CONTROL | TRANSACTIONAL) != CONTROL | TRANSACTIONAL:
        return None
    if len(batch) == HEADER_SIZE + END_RECORD.size:
        start, key_version, kind, length, version, coordinator_epoch, headers = END_RECORD.unpack_from(
            batch, HEADER_SIZE
        )
        zeros = key_version == version == headers == 0
        if zeros and start == END_RECORD_START and length == END_VALUE_LENGTH and kind in _MARKER_KINDS:
            committed = kind == _COMMIT
            return TransactionMarker(
                header[PRODUCER_ID],
                header[PRODUCER_EPOCH],
                coordinator_epoch,
                committed,
                header[MAX_TIMESTAMP],
            )
    return _decode_marker(header, batch)


def _decode_marker(header: HeaderFields, batch: ReadBuffer) -> TransactionMarker | None:
    """As ``read_marker``, for any layout of the record."""
    record = next(read_records(batch), None)
    if record is None:
        # Compaction leaves the batch of a marker without its record when nothing depends on it.
        return None
    kind = read_control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    return TransactionMarker(
        header[PRODUCER_ID],
        header[PRODUCER_EPOCH],
        read_coordinator_epoch(record.value),
        kind == ControlType.COMMIT,
        record.timestamp,
    )


def replay_batch(
    producers: ProducerStates, header: HeaderFields, batch: ReadBuffer
) -> AbortedTransaction | None:
    """Apply a batch to the producer state; returns the transaction index entry if the batch aborts data."""
    is_marker = header[PRODUCER_ID] != NO_PRODUCER_ID and header[ATTRIBUTES] & CONTROL
    return replay(producers, header, read_marker(batch) if is_marker else None)


def replay(
    producers: ProducerStates, header: HeaderFields, marker: TransactionMarker | None
) -> AbortedTransaction | None:
    """As ``replay_batch``, for a batch whose marker, if any, was read already."""
    if header[PRODUCER_ID] == NO_PRODUCER_ID:
        return None
    if not header[ATTRIBUTES] & CONTROL:
        producers.append_data(header, header[BASE_OFFSET])
        return None
    return producers.append_marker(marker, header[BASE_OFFSET]) if marker is not None else None


def load_producers(
    disk: Disk, log_path: str, segments: Sequence[Segment], snapshot_offsets: Sequence[int], end_offset: int
) -> tuple[ProducerStates, int]:
    """The producer state at ``end_offset``: the latest readable snapshot plus the batches after it.

    Returns the state and the offset of that snapshot (without one, the base offset of the first segment).
    """
    producers = ProducerStates()
    for offset in sorted((offset for offset in snapshot_offsets if offset <= end_offset), reverse=True):
        if load_snapshot(disk, snapshot_path(log_path, offset), producers):
            break
        # Damaged: an older snapshot and more batches give the same state.
        disk.unlink(snapshot_path(log_path, offset))
    else:
        offset = segments[0].base_offset
    replay_range(producers, segments, offset, end_offset)
    return producers, offset


def restore_completed_transactions(
    producers: ProducerStates,
    disk: Disk,
    log_path: str,
    segments: list[Segment],
    snapshot_offsets: Sequence[int],
    high_watermark: int,
    end_offset: int,
) -> None:
    """Add the completed transactions whose markers are not below the high watermark.

    A snapshot has only open transactions. One that completed before the snapshot, but past the high
    watermark, still holds back the last stable offset: the log may be truncated before its marker.
    """
    if high_watermark <= segments[0].base_offset and len(segments) > 1:
        # The high watermark is unknown, and there may be gigabytes after it.
        return
    if all(map(producers.has_completed_at, _marker_offsets(segments, high_watermark, end_offset))):
        return
    earlier = [offset for offset in snapshot_offsets if offset <= high_watermark]
    producers.merge_completed(load_producers(disk, log_path, segments, earlier, end_offset)[0])


def _marker_offsets(segments: list[Segment], start: int, end: int) -> Iterator[int]:
    if start >= end:
        return
    for segment in segments[segment_at(segments, start) :]:
        found = segment.find(max(start, segment.base_offset)) if segment.size else None
        if found is None:
            continue
        for _, header in scan_headers(segment.file, found[0], segment.size, SCAN_BYTES):
            if (
                start <= header[BASE_OFFSET] < end
                and header[PRODUCER_ID] != NO_PRODUCER_ID
                and header[ATTRIBUTES] & CONTROL
            ):
                yield header[BASE_OFFSET]


def load_snapshot(disk: Disk, path: str, producers: ProducerStates) -> bool:
    status = disk.status(path)
    if status is None or status.size == EMPTY_SIZE:
        return status is not None
    try:
        entries = decode_snapshot(disk.read_file(path), path)
    except CorruptLogError:
        return False
    for entry in entries:
        producers.restore(entry)
    producers.finish_restore()
    return True


def replay_range(producers: ProducerStates, segments: Sequence[Segment], start: int, end: int) -> None:
    """Apply the batches in [start, end) to the producer state."""
    if start >= end:
        return
    for at, segment in enumerate(segments):
        next_base = segments[at + 1].base_offset if at + 1 < len(segments) else end
        if next_base <= start or not segment.size:
            continue
        found = segment.find(start)
        if found is None:
            continue
        file = segment.file
        for position, header in scan_headers(file, found[0], segment.size, SCAN_BYTES):
            if header[BASE_OFFSET] >= end:
                return
            if header[PRODUCER_ID] == NO_PRODUCER_ID or header[BASE_OFFSET] < start:
                continue
            control = header[ATTRIBUTES] & CONTROL
            batch = file.pread(size_of(header), position) if control else b""
            try:
                replay_batch(producers, header, batch)
            except ProtocolError as error:
                raise CorruptLogError(
                    f"{file.path}: marker at offset {header[BASE_OFFSET]}: {error}"
                ) from error
