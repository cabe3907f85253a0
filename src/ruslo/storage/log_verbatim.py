"""Appending batches that carry their offsets and epochs already: on followers, and to the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.model.buffers import ReadBuffer
from ruslo.records.batch import LENGTH_OVERHEAD
from ruslo.storage.batch_scan import HeaderFields, buffer_headers, checked_batches
from ruslo.storage.producer_replay import replay_batch

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
        for batch in batches[at + 1 :]:
            header = batch[1]
            size = header[1] + LENGTH_OVERHEAD
            if not log.limits.allow(log.active.size + stop - start + size, header[8], header[0] + header[6]):
                break
            stop += size
            run.append(batch)
        _append_run(log, view, start, stop, run)
        at += len(run)
    return log.end_offset


def _append_run(
    log: Log, view: memoryview, start: int, stop: int, run: list[tuple[int, HeaderFields]]
) -> None:
    """One write of batches that go into the active segment together."""
    position = log.active.size
    log.write(view[start:stop], position)
    for at, header in run:
        base_offset, size = header[0], header[1] + LENGTH_OVERHEAD
        last_offset = base_offset + header[6]
        if header[2] > log.epochs.latest:
            log.epochs.assign(header[2], base_offset)
        log.note_batch(base_offset, position + at - start, last_offset, size, header[8])
        log.end_offset = last_offset + 1
        aborted = replay_batch(log.producers, header, view[at : at + size])
        if aborted is not None:
            log.append_abort(aborted)


def up_to_epoch(data: ReadBuffer, leader_epoch: int) -> memoryview:
    """The leading batches whose epoch is not above the leader's."""
    stop = 0
    for start, header in buffer_headers(data):
        if header[2] > leader_epoch:
            break
        stop = start + header[1] + LENGTH_OVERHEAD
    return memoryview(data)[:stop]
