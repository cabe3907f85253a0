"""Appending batches that carry their offsets and epochs already: on followers, and to the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.model.buffers import ReadBuffer
from ruslo.records.batch import CONTROL, LENGTH_OVERHEAD
from ruslo.storage.batch_scan import HeaderFields, buffer_headers, checked_batches
from ruslo.storage.producer_replay import read_marker, replay_batch

if TYPE_CHECKING:
    from ruslo.storage.log import Log


def append_as_is(log: Log, data: ReadBuffer, now_ms: int) -> int:
    batches = checked_batches(data, log.end_offset)
    view = memoryview(data)
    at = 0
    while at < len(batches):
        start, first = batches[at]
        stop = start + first[1] + LENGTH_OVERHEAD
        log.make_room(first[0], first[0] + first[6], stop - start, first[8], now_ms)
        run = [batches[at]]
        if _is_abort(view, start, first):
            _append_abort_marker(log, view[start:stop], first)
        else:
            for batch in batches[at + 1 :]:
                begin, header = batch
                size = header[1] + LENGTH_OVERHEAD
                fits = log.limits.allow(
                    log.active.size + stop - start + size, header[8], header[0] + header[6]
                )
                if not fits or _is_abort(view, begin, header):
                    break
                stop += size
                run.append(batch)
            _append_run(log, view, start, stop, run)
        at += len(run)
    return log.end_offset


def _is_abort(view: memoryview, start: int, header: HeaderFields) -> bool:
    if not header[5] & CONTROL:
        return False
    marker = read_marker(view[start : start + header[1] + LENGTH_OVERHEAD])
    return marker is not None and not marker.committed


def _append_abort_marker(log: Log, batch: memoryview, header: HeaderFields) -> None:
    """By itself, because a second file has a part in it."""
    marker = read_marker(batch)
    assert marker is not None
    position = log.active.size
    log.write_marker(batch, position, log.producers.aborted_by(marker, header[0]))
    _note(log, header, position, batch)


def _append_run(
    log: Log, view: memoryview, start: int, stop: int, run: list[tuple[int, HeaderFields]]
) -> None:
    """One write of batches that go into the active segment together."""
    position = log.active.size
    log.write(view[start:stop], position)
    for at, header in run:
        _note(log, header, position + at - start, view[at : at + header[1] + LENGTH_OVERHEAD])


def _note(log: Log, header: HeaderFields, position: int, batch: memoryview) -> None:
    """Of a batch that has been written. Nothing here may fail: the next one is written behind it."""
    base_offset, last_offset = header[0], header[0] + header[6]
    if header[2] > log.epochs.latest:
        log.epochs.assign(header[2], base_offset)
    log.note_batch(base_offset, position, last_offset, len(batch), header[8])
    log.end_offset = last_offset + 1
    replay_batch(log.producers, header, batch)


def up_to_epoch(data: ReadBuffer, leader_epoch: int) -> memoryview:
    """The leading batches whose epoch is not above the leader's."""
    stop = 0
    for start, header in buffer_headers(data):
        if header[2] > leader_epoch:
            break
        stop = start + header[1] + LENGTH_OVERHEAD
    return memoryview(data)[:stop]
