"""Compaction of a workbench's log without a broker and its cleaner process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ruslo.config.log_config import LogConfig
from ruslo.records.batch import BatchHeader
from ruslo.records.builder import build_batch
from ruslo.records.reader import iter_batches, read_records
from ruslo.records.record import Record
from ruslo.storage.cleaner.cleanable import CleanerLimits, find_cleanable, make_task
from ruslo.storage.cleaner.job import clean
from ruslo.storage.cleaner.task import CleanedSegment, CleanStats
from ruslo.storage.log import Log
from ruslo.storage.segment_swap import SegmentSwap
from tests.unit.storage.workbench import NOW, Workbench

COMPACTED = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=1000,
    index_interval_bytes=200,
    min_cleanable_dirty_ratio=0.0,
)
LIMITS = CleanerLimits(memory_bytes=1 << 20, io_buffer_bytes=1 << 16, io_bytes_per_second=None)

Pair = tuple[bytes | None, bytes | None]
Kept = tuple[int, bytes | None, bytes | None]


def keyed(
    pairs: Iterable[Pair],
    *,
    timestamp: int = NOW,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
) -> bytearray:
    return build_batch(
        [Record(at, timestamp + at, key, value) for at, (key, value) in enumerate(pairs)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        attributes=attributes,
    )


def compact(
    bench: Workbench, checkpoint: int | None = None, limits: CleanerLimits = LIMITS
) -> tuple[int, CleanStats] | None:
    """Run one round; return its end offset and stats, or None if the log is clean."""
    log = bench.log
    found = find_cleanable(log, checkpoint, bench.clock.ms)
    if found is None:
        return None
    bench.compacted_at_most = max(bench.compacted_at_most, found.end_offset)
    ready: list[CleanedSegment] = []
    stats = clean(log.disk, make_task(found, limits, bench.clock.ms), ready.append)
    for cleaned in ready:
        swap_in(bench, cleaned)
    return found.end_offset, stats


def swap_in(bench: Workbench, cleaned: CleanedSegment) -> None:
    swap = SegmentSwap(bench.log, cleaned, bench.clock.ms)
    assert swap.begin()
    swap.complete()


def roll(bench: Workbench) -> None:
    """Roll and flush, so that all records can be compacted."""
    bench.commit_all()
    if bench.log.active.size:
        bench.log.roll(bench.log.end_offset, bench.clock.ms)
    bench.log.flush(bench.clock.ms)


def batches_in(log: Log) -> list[tuple[BatchHeader, bytes]]:
    """Every batch on disk, over all segments."""
    found = []
    for segment in log.segments:
        data = Path(segment.path_of(".log")).read_bytes()
        found += [(header, data[at : at + header.size]) for at, header in iter_batches(data)]
    return found


def kept_records(log: Log) -> list[Kept]:
    """The offset, key and value of every data record on disk."""
    return [
        (record.offset, record.key, record.value)
        for header, batch in batches_in(log)
        if not header.is_control
        for record in read_records(batch)
    ]
