"""Which segments a log may drop: whole ones, the oldest first, only below the high watermark.

By time and size the active segment goes too, if everything in it is committed: it is sealed first. Without
``delete`` in ``cleanup.policy`` only segments below the start offset go (DeleteRecords).
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


def delete_old_segments(log: Log, now_ms: int, at_most: int = NO_LIMIT) -> int:
    if log.failure is not None or log.swap is not None:
        return 0
    deleted = 0
    config = log.config
    if config.deletes:
        if config.retention_ms >= 0:
            deleted += _drop_while(
                log,
                now_ms,
                lambda segment, _: now_ms - segment.retention_timestamp() > config.retention_ms,
                at_most,
            )
        if config.retention_bytes >= 0:
            excess = log.size_bytes - config.retention_bytes

            def too_much(segment: Segment, _: int | None) -> bool:
                nonlocal excess
                excess -= segment.size
                return excess >= 0

            deleted += _drop_while(log, now_ms, too_much, at_most - deleted)
    start = log.start_offset

    def below_start(_: Segment, next_base: int | None) -> bool:
        return next_base is not None and next_base <= start

    return deleted + _drop_while(log, now_ms, below_start, at_most - deleted)


def _drop_while(log: Log, now_ms: int, goes: Callable[[Segment, int | None], bool], at_most: int) -> int:
    """Drop segments from the oldest on, up to the first that stays."""
    segments = log.segments
    count = 0
    for at, segment in enumerate(segments[:at_most]):
        next_base = segments[at + 1].base_offset if at + 1 < len(segments) else None
        end = log.end_offset if next_base is None else next_base
        if next_base is None and not segment.size:
            break
        if end > log.high_watermark or not goes(segment, next_base):
            break
        count += 1
    if count:
        if count == len(segments):
            log.roll(log.end_offset, now_ms)
        _drop(log, count)
    return count


def _drop(log: Log, count: int) -> None:
    """Remove the oldest segments; their files go to the trash, with the producer snapshots beside them."""
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
            f"{log.partition.topic} has cleanup.policy=compact; it must include delete for this",
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
