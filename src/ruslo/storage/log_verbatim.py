"""Appends batches that have offsets and leader epochs already: on followers, and to the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ruslo.model.buffers import ReadBuffer
from ruslo.records.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    HeaderFields,
    last_offset_of,
    size_of,
)
from ruslo.storage.batch_scan import buffer_headers, check_batches, whole_batches
from ruslo.storage.producer_replay import read_marker, replay
from ruslo.storage.producer_state import TransactionMarker

if TYPE_CHECKING:
    from ruslo.storage.log import Log


class _Batch(NamedTuple):
    start: int
    """Position in the received bytes."""
    stop: int
    header: HeaderFields
    marker: TransactionMarker | None

    @property
    def aborts(self) -> bool:
        return self.marker is not None and not self.marker.committed


def append_as_is(log: Log, data: ReadBuffer, now_ms: int) -> int:
    return _append(log, data, whole_batches(data), now_ms)


def append_up_to_epoch(log: Log, data: ReadBuffer, leader_epoch: int, now_ms: int) -> int:
    """Append the whole batches up to the first one with an epoch above the leader's."""
    found = []
    for batch in buffer_headers(data):
        if batch[1][LEADER_EPOCH] > leader_epoch:
            break
        found.append(batch)
    if _starts_inside_batch(log, found):
        return _append_first_batch(log, data, found, now_ms)
    return _append(log, data, found, now_ms)


def _starts_inside_batch(log: Log, found: list[tuple[int, HeaderFields]]) -> bool:
    """Whether the log is empty and its start offset is inside a batch, as DeleteRecords may leave it."""
    if not found or len(log.segments) > 1 or log.active.size or log.start_offset < log.end_offset:
        return False
    header = found[0][1]
    return header[BASE_OFFSET] < log.start_offset <= last_offset_of(header)


def _append_first_batch(
    log: Log, data: ReadBuffer, found: list[tuple[int, HeaderFields]], now_ms: int
) -> int:
    """Append a batch as a whole and keep the log start offset inside it."""
    start_offset, base_offset = log.start_offset, found[0][1][BASE_OFFSET]
    check_batches(data, found, base_offset)
    log.truncate_fully_and_start_at(base_offset)
    _append(log, data, found, now_ms)
    log.advance_start_offset(start_offset)
    return log.end_offset


def _append(log: Log, data: ReadBuffer, found: list[tuple[int, HeaderFields]], now_ms: int) -> int:
    check_batches(data, found, log.end_offset)
    view = memoryview(data)
    # All markers are read before anything is written: a malformed one must not get into the log.
    batches = [_batch(view, start, header) for start, header in found]
    at = 0
    while at < len(batches):
        start, stop, header, _ = batches[at]
        last_offset, limits = last_offset_of(header), log.limits
        if now_ms > limits.now_ms or not limits.allows(
            log.active.size + stop - start, header[MAX_TIMESTAMP], last_offset
        ):
            log.make_room(header[BASE_OFFSET], last_offset, stop - start, header[MAX_TIMESTAMP], now_ms)
        run = [batches[at]]
        if batches[at].aborts:
            _append_abort_marker(log, view, batches[at])
        else:
            for batch in batches[at + 1 :]:
                header = batch.header
                size = log.active.size + batch.stop - start
                if batch.aborts or not log.limits.allows(size, header[MAX_TIMESTAMP], last_offset_of(header)):
                    break
                run.append(batch)
            _append_run(log, view, run)
        at += len(run)
    return log.end_offset


def _batch(view: memoryview, start: int, header: HeaderFields) -> _Batch:
    stop = start + size_of(header)
    marker = read_marker(view[start:stop]) if header[ATTRIBUTES] & CONTROL else None
    return _Batch(start, stop, header, marker)


def _append_abort_marker(log: Log, view: memoryview, batch: _Batch) -> None:
    """Append one marker by itself, because the transaction index is written with it."""
    assert batch.marker is not None
    position = log.active.size
    aborted = log.producers.aborted_by(batch.marker, batch.header[BASE_OFFSET])
    log.write_marker(view[batch.start : batch.stop], position, aborted)
    _update_state(log, batch, position)


def _append_run(log: Log, view: memoryview, run: list[_Batch]) -> None:
    """Append batches to the active segment with one write."""
    position, start = log.active.size, run[0].start
    log.write(view[start : run[-1].stop], position)
    for batch in run:
        _update_state(log, batch, position + batch.start - start)


def _update_state(log: Log, batch: _Batch, position: int) -> None:
    """Update the log after a batch was written. This must not fail."""
    header = batch.header
    base_offset, last_offset = header[BASE_OFFSET], last_offset_of(header)
    if header[LEADER_EPOCH] > log.epochs.latest:
        log.epochs.assign(header[LEADER_EPOCH], base_offset)
    log.note_batch(base_offset, position, last_offset, batch.stop - batch.start, header[MAX_TIMESTAMP])
    log.end_offset = last_offset + 1
    replay(log.producers, header, batch.marker)
