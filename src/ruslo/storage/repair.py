"""Leaves out of a log what ``verify`` found to be damaged, and makes everything anew that can be.

Offsets stay: where records are lost a gap remains, as compaction leaves them too. A gap at the end of a
segment is filled with an empty batch, because the broker takes one there for damage.
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
    """Put right what the report tells; ``keep_in`` gets a copy of every file that loses bytes.

    Raises StorageError, before anything was changed, if this cannot be done from here.
    """
    partition = parse_directory_name(os.path.basename(report.path))
    if partition is None:
        raise StorageError(f"{report.path} is not the directory of a partition in use")
    for finding in report.findings:
        if finding.kind is Kind.IDENTITY:
            raise StorageError(
                f"{finding.file}: which topic this is cannot be told from its log. Take the topic id from "
                "'ruslo topic describe' and write the file, or copy it from a backup"
            )
    damaged: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.kind is Kind.RECORDS:
            damaged.setdefault(finding.file, []).append(finding)
    for path, findings in damaged.items():
        if keep_in is not None:
            _keep(path, partition, keep_in)
        _leave_out(disk, path, findings)
    _fill_ends(disk, report)
    end_offset = _make_anew(disk, report, partition)
    _trust_gaps(disk, report, partition, end_offset)


def _keep(path: str, partition: TopicPartition, keep_in: str) -> None:
    folder = os.path.join(keep_in, str(partition))
    os.makedirs(folder, exist_ok=True)
    shutil.copy2(path, folder)


def _leave_out(disk: Disk, path: str, findings: Iterable[Finding]) -> None:
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
    concerned = {offset_of(os.path.basename(finding.file)) for finding in report.findings}
    for base, following in pairwise(bases):
        if base in concerned:
            file = disk.open(segment_stem(report.path, base) + LOG_SUFFIX)
            end_offset, epoch = base, NO_EPOCH
            for _, header in scan_headers(file, 0, file.size(), SCAN_BYTES):
                end_offset, epoch = last_offset_of(header) + 1, header[LEADER_EPOCH]
            if end_offset < following:
                file.append(empty_batch(end_offset, following - 1, max(epoch, 0)))
                file.sync()


def _make_anew(disk: Disk, report: PartitionReport, partition: TopicPartition) -> int:
    """Recovery goes through all segments and writes indexes, producers and epochs from what it finds."""
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


def _trust_gaps(disk: Disk, report: PartitionReport, partition: TopicPartition, end_offset: int) -> None:
    """Raise the recovery point: beyond it the next start would take a gap for a loss and drop the rest."""
    path = os.path.join(os.path.dirname(report.path), RECOVERY_POINTS)
    try:
        recovery_points = read_offsets(disk, path)
    except CorruptLogError:
        return  # Recovery does not rely on it then.
    if recovery_points is not None:
        disk.replace_file(path, format_offsets({**recovery_points, partition: end_offset}))
