"""Deletes old segments: the oldest first, and only below the high watermark.

By time and size the active segment is deleted too, after a roll, if all its records are committed. Without
``delete`` in ``cleanup.policy`` only segments below the log start offset are deleted (DeleteRecords).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.storage.producer_snapshot import snapshot_path
from ruslo.storage.segment import Segment

if TYPE_CHECKING:
    from ruslo.storage.log import Log

NO_LIMIT = 2**31


def delete_old_segments(log: Log, now_ms: int, max_segments: int = NO_LIMIT) -> int:
    if log.failure is not None or log.swap is not None:
        return 0
    deleted = 0
    config = log.config
    if config.deletes:
        if config.retention_ms >= 0:
            deleted += _delete_while(
                log,
                now_ms,
                lambda segment, _: now_ms - segment.retention_timestamp() > config.retention_ms,
                max_segments,
            )
        if config.retention_bytes >= 0:
            excess = log.size_bytes - config.retention_bytes

            def exceeds_retention_bytes(segment: Segment, _: int | None) -> bool:
                nonlocal excess
                excess -= segment.size
                return excess >= 0

            deleted += _delete_while(log, now_ms, exceeds_retention_bytes, max_segments - deleted)
    start = log.start_offset

    def below_start(_: Segment, next_base: int | None) -> bool:
        return next_base is not None and next_base <= start

    return deleted + _delete_while(log, now_ms, below_start, max_segments - deleted)


def _delete_while(
    log: Log, now_ms: int, should_delete: Callable[[Segment, int | None], bool], max_segments: int
) -> int:
    """Delete segments from the oldest, up to the first that stays."""
    segments = log.segments
    count = 0
    for at, segment in enumerate(segments[:max_segments]):
        next_base = segments[at + 1].base_offset if at + 1 < len(segments) else None
        end = log.end_offset if next_base is None else next_base
        if next_base is None and not segment.size:
            break
        if end > log.high_watermark or not should_delete(segment, next_base):
            break
        count += 1
    if count:
        if count == len(segments):
            log.roll(log.end_offset, now_ms)
        _delete(log, count)
    return count


def _delete(log: Log, count: int) -> None:
    """Delete the oldest segments and their producer state snapshots; the files go to the trash."""
    for segment in log.segments[:count]:
        paths = segment.mark_deleted()
        snapshot = snapshot_path(log.path, segment.base_offset)
        if log.disk.status(snapshot) is not None:
            paths.append(snapshot)
        log.trash.add_files(paths, log.config.file_delete_delay_ms)
    del log.segments[:count]
    log.segments_dropped()


def delete_records_before(log: Log, offset: int) -> int:
    if log.config.compacts and not log.config.deletes:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{log.partition.topic} has cleanup.policy=compact; add delete to it to delete records",
        )
    target = log.high_watermark if offset == -1 else offset
    if not 0 <= target <= log.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"records of {log.partition} can be deleted up to its high watermark {log.high_watermark}, "
            f"not to {offset}",
        )
    log.advance_start_offset(target)
    return log.start_offset
