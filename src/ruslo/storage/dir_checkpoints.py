"""The offset checkpoints of a log directory."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ruslo.config.limits import LONG_MAX
from ruslo.model.errors import CorruptLogError
from ruslo.model.topics import TopicPartition
from ruslo.storage.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointedState,
    CheckpointFile,
    CheckpointWrite,
    read_offsets,
)
from ruslo.storage.disk import Disk
from ruslo.storage.log import Log

logger = logging.getLogger(__name__)


class DirCheckpoints:
    """Recovery points, log start offsets, high watermarks and cleaner offsets, as they are on disk."""

    def __init__(self, disk: Disk, logs: Mapping[TopicPartition, Log]) -> None:
        """``logs``: the logs of the directory, as they are when a checkpoint is written."""
        self._disk = disk
        self._logs = logs
        self.cleaned: dict[TopicPartition, int] = {}
        """The offset up to which each log is compacted."""
        self.has_recovery_points = False
        """Whether the directory had readable recovery points."""
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._has_cleaned = True
        self._recovery_point_file = CheckpointFile(disk, f"{disk.directory}/{RECOVERY_POINTS}")
        self._log_start_file = CheckpointFile(disk, f"{disk.directory}/{LOG_STARTS}")
        self._high_watermark_file = CheckpointFile(disk, f"{disk.directory}/{HIGH_WATERMARKS}")
        self._cleaned_file = CheckpointFile(disk, f"{disk.directory}/{CLEANED}")

    # --- the last run -----------------------------------------------------------------

    def read(self) -> None:
        recovery_points = self._read(RECOVERY_POINTS)
        self.has_recovery_points = recovery_points is not None
        self._recovery_points = recovery_points or {}
        self._log_starts = self._read(LOG_STARTS) or {}
        self._high_watermarks = self._read(HIGH_WATERMARKS) or {}
        cleaned = self._read(CLEANED)
        self._has_cleaned = cleaned is not None or self._disk.status(self._cleaned_file.path) is None
        self.cleaned = cleaned or {}

    def _read(self, name: str) -> dict[TopicPartition, int] | None:
        try:
            return read_offsets(self._disk, f"{self._disk.directory}/{name}")
        except CorruptLogError as error:
            # Without it more than necessary is recovered or replicated; nothing is lost.
            logger.warning("Ignoring a checkpoint, which will be rewritten: %s", error)
            return None

    def recovery_point(self, partition: TopicPartition) -> int:
        return self._recovery_points.get(partition, 0)

    def state_of(self, partition: TopicPartition, *, clean: bool) -> CheckpointedState:
        """What the last run left for a log. Without readable checkpoints any gap may come from compaction."""
        recovery_point, cleaned = self.recovery_point(partition), self.cleaned.get(partition, 0)
        return CheckpointedState(
            clean=clean,
            recovery_point=recovery_point,
            start_offset=self._log_starts.get(partition, 0),
            high_watermark=self._high_watermarks.get(partition, 0),
            # The recovery point is on disk before compaction leaves a gap.
            gaps_below=max(recovery_point, cleaned) if self.has_recovery_points else LONG_MAX,
            compacted_below=cleaned if self._has_cleaned else LONG_MAX,
        )

    def end_offset_of(self, partition: TopicPartition) -> int | None:
        """The end offset that the checkpoints prove; None if they do not have the log."""
        known = (self._recovery_points, self._high_watermarks)
        return max((offsets[partition] for offsets in known if partition in offsets), default=None)

    # --- this run ---------------------------------------------------------------------

    def mention(self, partition: TopicPartition) -> bool:
        """Whether a file may have offsets of a partition, whose topic may have been deleted."""
        known = (self._recovery_points, self._log_starts, self._high_watermarks, self.cleaned)
        files = (
            self._recovery_point_file,
            self._log_start_file,
            self._high_watermark_file,
            self._cleaned_file,
        )
        return any(partition in each for each in known) or any(file.is_behind for file in files)

    def overstate(self, log: Log) -> bool:
        """Whether a checkpoint on disk has an offset that the log does not have any more."""
        partition = log.partition
        return (
            self._recovery_points.get(partition, 0) > log.recovery_point
            or self._high_watermarks.get(partition, 0) > log.high_watermark
            or self.cleaned.get(partition, 0) > log.end_offset
        )

    def recovery_points(self) -> CheckpointWrite | None:
        """Prepare a write of the recovery points; None if the file has them already."""
        self._recovery_points = {
            partition: _to_checkpoint(log, log.recovery_point) for partition, log in self._logs.items()
        }
        return self._recovery_point_file.prepare(self._recovery_points)

    def log_starts(self) -> CheckpointWrite | None:
        self._log_starts = {
            partition: log.start_offset
            for partition, log in self._logs.items()
            if log.start_offset > log.segments[0].base_offset
        }
        return self._log_start_file.prepare(self._log_starts)

    def high_watermarks(self) -> CheckpointWrite | None:
        self._high_watermarks = {
            partition: _to_checkpoint(log, log.high_watermark) for partition, log in self._logs.items()
        }
        return self._high_watermark_file.prepare(self._high_watermarks)

    def cleaned_offsets(self) -> CheckpointWrite | None:
        self.cleaned = {
            partition: min(offset, self._logs[partition].end_offset)
            for partition, offset in self.cleaned.items()
            if partition in self._logs
        }
        return self._cleaned_file.prepare(self.cleaned)

    def write_all(self) -> None:
        for write in (
            self.recovery_points(),
            self.log_starts(),
            self.high_watermarks(),
            self.cleaned_offsets(),
        ):
            if write is not None:
                write.run()


def _to_checkpoint(log: Log, offset: int) -> int:
    """The offset to checkpoint; the next start must detect a lost tail too, until it was handled."""
    return offset if log.lost_tail is None else max(offset, log.lost_tail.end_offset)
