"""Repairs a partition: removes the damaged bytes that ``verify`` found, and rebuilds all other files.

Offsets do not change: lost records leave a gap, as compaction does. A gap at the end of a segment is filled
with an empty batch, because the broker would take it for damage.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from itertools import pairwise

from ruslo.config.limits import LONG_MAX
from ruslo.config.log_config import LogConfig
from ruslo.model.clock import SystemClock
from ruslo.model.errors import CorruptLogError, StorageError
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import LEADER_EPOCH, last_offset_of
from ruslo.records.builder import empty_batch
from ruslo.storage.batch_scan import SCAN_BYTES, scan_headers
from ruslo.storage.checkpoints import RECOVERY_POINTS, CheckpointedState, format_offsets, read_offsets
from ruslo.storage.disk import Disk
from ruslo.storage.leader_epochs import NO_EPOCH
from ruslo.storage.log_loader import open_log
from ruslo.storage.partition_files import offset_of, parse_directory_name, segment_bases
from ruslo.storage.segment import LOG_SUFFIX, segment_stem
from ruslo.storage.trash import Trash
from ruslo.storage.verify import Finding, Kind, PartitionReport

_COPY_BYTES = 1 << 20
_NEW_SUFFIX = ".tmp"


def repair_partition(disk: Disk, report: PartitionReport, keep_in: str | None) -> None:
    """Repair what the report found; ``keep_in`` gets a copy of every file that loses bytes.

    Raises StorageError, before anything was changed, if the partition cannot be repaired.
    """
    partition = parse_directory_name(os.path.basename(report.path))
    if partition is None:
        raise StorageError(f"{report.path} is not a partition directory")
    for finding in report.findings:
        if finding.kind is Kind.IDENTITY:
            raise StorageError(
                f"{finding.file} cannot be rebuilt: the log does not have the topic id. Write the file with "
                "the topic id from 'ruslo topic describe', or restore it from a backup"
            )
    damaged: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.kind is Kind.RECORDS:
            damaged.setdefault(finding.file, []).append(finding)
    for path, findings in damaged.items():
        if keep_in is not None:
            _keep(path, partition, keep_in)
        _remove_damage(disk, path, findings)
    _fill_ends(disk, report)
    end_offset = _rebuild(disk, report, partition)
    _raise_recovery_point(disk, report, partition, end_offset)


def _keep(path: str, partition: TopicPartition, keep_in: str) -> None:
    folder = os.path.join(keep_in, str(partition))
    os.makedirs(folder, exist_ok=True)
    shutil.copy2(path, folder)


def _remove_damage(disk: Disk, path: str, findings: Iterable[Finding]) -> None:
    source = disk.open(path)
    disk.unlink(path + _NEW_SUFFIX)
    target = disk.open(path + _NEW_SUFFIX, create=True)
    position = 0
    end = source.size()
    holes = [(finding.position, finding.position + finding.size) for finding in findings]
    for start, stop in (*holes, (end, end)):
        while position < start:
            data = source.pread(min(_COPY_BYTES, start - position), position)
            target.append(data)
            position += len(data)
        position = stop
    target.sync()
    disk.rename(path + _NEW_SUFFIX, path)
    disk.sync_directory(os.path.dirname(path))


def _fill_ends(disk: Disk, report: PartitionReport) -> None:
    bases = segment_bases(disk.list_names(report.path))
    damaged_bases = {offset_of(os.path.basename(finding.file)) for finding in report.findings}
    for base, following in pairwise(bases):
        if base in damaged_bases:
            file = disk.open(segment_stem(report.path, base) + LOG_SUFFIX)
            end_offset, epoch = base, NO_EPOCH
            for _, header in scan_headers(file, 0, file.size(), SCAN_BYTES):
                end_offset, epoch = last_offset_of(header) + 1, header[LEADER_EPOCH]
            if end_offset < following:
                file.append(empty_batch(end_offset, following - 1, max(epoch, 0)))
                file.sync()


def _rebuild(disk: Disk, report: PartitionReport, partition: TopicPartition) -> int:
    """Recover all segments, which rebuilds all other files; returns the log end offset."""
    for finding in report.findings:
        if finding.kind is Kind.INDEX and not finding.file.endswith(LOG_SUFFIX):
            disk.unlink(finding.file)
    clock = SystemClock()
    now_ms = clock.now_ms()
    log = open_log(
        disk,
        report.path,
        partition,
        LogConfig(),
        Trash(disk, clock),
        now_ms,
        CheckpointedState(clean=False, gaps_below=LONG_MAX),
        producer_expiration_ms=now_ms,
    )
    log.close(now_ms)
    return log.end_offset


def _raise_recovery_point(
    disk: Disk, report: PartitionReport, partition: TopicPartition, end_offset: int
) -> None:
    """Raise the recovery point to the log end offset: past it the next start would take a gap for a loss."""
    path = os.path.join(os.path.dirname(report.path), RECOVERY_POINTS)
    try:
        recovery_points = read_offsets(disk, path)
    except CorruptLogError:
        return  # Recovery does not use it then.
    if recovery_points is not None:
        disk.replace_file(path, format_offsets({**recovery_points, partition: end_offset}))
