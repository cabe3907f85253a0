"""Cutting a log back, because its leader's history is another one (KIP-101, KIP-279).

Cuts fall between batches. Segments go from the last backwards, so that a crash in the middle leaves a log
that is whole up to some point and never one with a hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ruslo.records.batch import BASE_OFFSET
from ruslo.storage.disk import DiskError
from ruslo.storage.log_reader import segment_at
from ruslo.storage.partition_files import snapshot_offsets
from ruslo.storage.producer_replay import load_producers, restore_completed_transactions
from ruslo.storage.producer_snapshot import snapshot_path
from ruslo.storage.segment import Segment

if TYPE_CHECKING:
    from ruslo.storage.log import Log


@contextmanager
def _to_the_end() -> Iterator[None]:
    """What stops half way, be it for lack of descriptors, leaves segments, end and producers that do not fit
    each other: only the next start can put that right."""
    try:
        yield
    except DiskError as error:
        error.fatal = True
        raise


@_to_the_end()
def truncate_to(log: Log, offset: int) -> bool:
    if offset >= log.end_offset:
        # An epoch in which this replica led but wrote nothing begins at the end, and may not be the leader's.
        log.epochs.truncate_from_end(log.end_offset)
        return False
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    keep = segment_at(log.segments, offset)
    while len(log.segments) > keep + 1:
        _discard(log, log.segments.pop())
    segment = log.segments[keep]
    segment.activate()
    end_offset = offset
    found = segment.find(offset)
    if found is not None:
        position, header = found
        # A batch that holds the offset goes as a whole; then the log ends before it.
        end_offset = min(offset, header[BASE_OFFSET])
        segment.truncate_to(position, header[BASE_OFFSET] - segment.base_offset)
    segment.txn_index.truncate_to(end_offset)
    log.segments_changed(end_offset)
    log.epochs.truncate_from_end(end_offset)
    kept = _discard_snapshots_above(log, end_offset)
    log.producers, log.snapshot_offset = load_producers(log.disk, log.path, log.segments, kept, end_offset)
    restore_completed_transactions(
        log.producers, log.disk, log.path, log.segments, kept, log.high_watermark, end_offset
    )
    log.update_last_stable_offset()
    try:
        log.write_producer_snapshot()
    except DiskError as error:
        # It only shortens the next start; the log is cut, and must not seem to be as it was.
        if not error.disk_full:
            raise
    return True


@_to_the_end()
def truncate_fully_and_start_at(log: Log, offset: int) -> None:
    while log.segments:
        _discard(log, log.segments.pop())
    _discard_snapshots_above(log, -1)
    segment = Segment(log.disk, log.path, offset, 0, log.flushed_ms)
    segment.create_file()
    log.segments.append(segment)
    log.segments_changed(offset)
    log.start_offset = log.recovery_point = log.high_watermark = log.snapshot_offset = offset
    log.epochs.clear()
    log.producers.clear()
    log.update_last_stable_offset()


def _discard(log: Log, segment: Segment) -> None:
    log.trash.add_files(segment.mark_deleted(), log.config.file_delete_delay_ms)


def _discard_snapshots_above(log: Log, offset: int) -> list[int]:
    kept = []
    for snapshot in snapshot_offsets(log.disk.list_names(log.path)):
        if snapshot > offset:
            log.disk.unlink(snapshot_path(log.path, snapshot))
        else:
            kept.append(snapshot)
    return kept
