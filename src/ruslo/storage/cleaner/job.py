"""Compacts one log: a round, from its task to the new segments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from ruslo.storage import txn_index
from ruslo.storage.cleaner.grouping import bases, group_segments
from ruslo.storage.cleaner.rewrite import SegmentRewrite
from ruslo.storage.cleaner.task import CleanedSegment, CleanStats, CleanTask, SourceSegment
from ruslo.storage.cleaner.throttle import Throttle
from ruslo.storage.cleaner.transactions import TransactionWalk
from ruslo.storage.cleaner.verdicts import AbortedRanges, Verdicts
from ruslo.storage.cleaner.windows import Source
from ruslo.storage.disk import Disk
from ruslo.storage.leftovers import CLEANED_SUFFIX
from ruslo.storage.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX, segment_stem
from ruslo.storage.txn_index import AbortedTransaction


def clean(
    disk: Disk,
    task: CleanTask,
    on_segment: Callable[[CleanedSegment], None],
    on_progress: Callable[[], None] = lambda: None,
) -> CleanStats:
    """Compact the log below ``task.end_offset``; ``on_segment`` gets each new segment after it was synced.

    ``on_progress`` is called often and may end the round with an exception. Raises DiskError, or
    CorruptLogError if the log cannot be compacted. The old segments stay as they are.
    """
    started_s = time.monotonic()
    throttle = Throttle(task.io_bytes_per_second, on_progress)
    aborted = list(_aborted_transactions(disk, task))
    sources = {
        segment.base_offset: Source(disk, task.path, segment, task.io_buffer_bytes, throttle)
        for segment in task.segments
    }
    verdicts = Verdicts(task, list(sources.values()), AbortedRanges(aborted))
    verdicts.find()
    stats = CleanStats(
        bytes_before=sum(segment.size for segment in task.segments),
        records_before=sum(source.records for source in sources.values()),
        keys_passes=verdicts.passes,
    )
    transactions = TransactionWalk(aborted)
    for group in group_segments(disk, task):
        members = [sources[base] for base in bases(group)]
        if len(group) == 1 and members[0].is_plain and not verdicts.change(members[0]):
            # No record or marker is removed, so the segment stays as it is.
            stats.bytes_after += group[0].size
            stats.records_after += members[0].records
            continue
        rewrite = SegmentRewrite(disk, task, verdicts, transactions, throttle, group[0].base_offset)
        for source in members:
            rewrite.add(source)
        cleaned = rewrite.finish(_modified_ms(disk, task, group), bases(group))
        disk.sync_directory(task.path)
        stats.bytes_after += cleaned.size
        stats.records_after += rewrite.records
        on_segment(cleaned)
    stats.seconds = time.monotonic() - started_s
    return stats


def remove_unfinished(disk: Disk, log_path: str) -> None:
    """Delete the files of a round that failed or was stopped."""
    for name in disk.list_names(log_path):
        if name.endswith(CLEANED_SUFFIX):
            disk.unlink(f"{log_path}/{name}")


def _aborted_transactions(disk: Disk, task: CleanTask) -> Iterator[AbortedTransaction]:
    for base in task.txn_index_segments:
        path = segment_stem(task.path, base) + TXN_INDEX_SUFFIX
        if disk.status(path) is None:
            continue
        data = disk.read_file(path)
        # The broker may be appending to the last one.
        whole = len(data) - len(data) % txn_index.ENTRY.size
        yield from txn_index.parse(data[:whole], path)


def _modified_ms(disk: Disk, task: CleanTask, group: Sequence[SourceSegment]) -> int:
    status = disk.status(segment_stem(task.path, group[-1].base_offset) + LOG_SUFFIX)
    return status.modified_ms if status is not None else task.now_ms
