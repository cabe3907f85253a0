"""How far the recovery of a log directory is: numbers for whoever asks, now and then a line in the log."""

from __future__ import annotations

import logging
import threading

from ruslo.model.clock import Clock

logger = logging.getLogger(__name__)

REPORT_INTERVAL_MS = 5_000


class RecoveryProgress:
    """Plain integers that any thread may read; all are 0 in a directory that was closed in order."""

    def __init__(self, directory: str, clock: Clock) -> None:
        self.directory = directory
        self._clock = clock
        self.logs_total = 0
        self.logs_done = 0
        self.segments_total = 0
        """Segments that were not synced: those behind the recovery points."""
        self.segments_done = 0
        self._bytes = 0
        self._lock = threading.Lock()
        self._began_ms = self._reported_ms = 0

    @property
    def logs_left(self) -> int:
        return self.logs_total - self.logs_done

    @property
    def segments_left(self) -> int:
        return self.segments_total - self.segments_done

    def begin(self, logs: int, segments: int) -> None:
        self.logs_total, self.segments_total = logs, segments
        self._began_ms = self._reported_ms = self._clock.monotonic_ms()
        if logs:
            logger.info(
                "%s was not closed in order: its %d logs are recovered, of which %d segments are read",
                self.directory,
                logs,
                segments,
            )

    def begin_log(self, segments: int) -> LogRecoveryProgress:
        """``segments``: how many of them count in ``segments_total``."""
        return LogRecoveryProgress(self, segments)

    def note(self, *, segments: int = 0, logs: int = 0, size_bytes: int = 0) -> None:
        with self._lock:
            self.segments_done += segments
            self.logs_done += logs
            self._bytes += size_bytes
            now_ms = self._clock.monotonic_ms()
            is_due = now_ms - self._reported_ms >= REPORT_INTERVAL_MS
            if is_due:
                self._reported_ms = now_ms
        if is_due:
            logger.info(
                "%s: %d of %d logs are open, %d of %d segments are read",
                self.directory,
                self.logs_done,
                self.logs_total,
                self.segments_done,
                self.segments_total,
            )

    def finished(self) -> None:
        if self.logs_total:
            logger.info(
                "%s: %d logs of %.1f MB are open after %.1f s",
                self.directory,
                self.logs_done,
                self._bytes / 1e6,
                (self._clock.monotonic_ms() - self._began_ms) / 1000,
            )


class LogRecoveryProgress:
    """One log's part in it."""

    def __init__(self, progress: RecoveryProgress, segments: int) -> None:
        self._progress = progress
        self._segments_left = segments

    def segment_done(self) -> None:
        """Segments with missing indexes are read too, but nobody could count them before."""
        if self._segments_left:
            self._segments_left -= 1
            self._progress.note(segments=1)

    def opened(self, size_bytes: int) -> None:
        """What was cut off behind the first damage counts as done."""
        self._progress.note(segments=self._segments_left, logs=1, size_bytes=size_bytes)
