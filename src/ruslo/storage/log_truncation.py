"""Truncates a log where it diverges from the leader's log (KIP-101, KIP-279).

A log is truncated between batches. Segments are deleted from the last one backwards, so a crash in the middle
never leaves a gap.
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
def _all_or_offline() -> Iterator[None]:
    """Make every DiskError fatal: after half a truncation, segments and producer state do not match.

    Only the next start can recover from that, even if the cause was a lack of descriptors.
    """
    try:
        yield
    except DiskError as error:
        error.fatal = True
        raise


@_all_or_offline()
def truncate_to(log: Log, offset: int) -> bool:
    if offset >= log.end_offset:
        # An epoch in which this replica led without appending starts at the end; the leader may not have it.
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
        # A batch that has the offset is removed as a whole, and the log ends before it.
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
        # The snapshot only shortens the next start. The log is truncated, so this must not fail.
        if not error.disk_full:
            raise
    return True


@_all_or_offline()
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
