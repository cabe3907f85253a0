"""The progress of the recovery of a log directory: counters, and a log line every few seconds."""

from __future__ import annotations

import logging
import threading

from ruslo.model.clock import Clock

logger = logging.getLogger(__name__)

LOG_INTERVAL_MS = 5_000


class RecoveryProgress:
    """Plain integers that any thread may read; all are 0 after a clean shutdown."""

    def __init__(self, directory: str, clock: Clock) -> None:
        self.directory = directory
        self._clock = clock
        self.logs_total = 0
        self.logs_done = 0
        self.segments_total = 0
        """Segments past the recovery points, which may not have been synced."""
        self.segments_done = 0
        self._bytes = 0
        self._lock = threading.Lock()
        self._started_ms = self._logged_ms = 0

    @property
    def logs_left(self) -> int:
        return self.logs_total - self.logs_done

    @property
    def segments_left(self) -> int:
        return self.segments_total - self.segments_done

    def begin(self, logs: int, segments: int) -> None:
        self.logs_total, self.segments_total = logs, segments
        self._started_ms = self._logged_ms = self._clock.monotonic_ms()
        if logs:
            logger.info(
                "Recovering %d logs in %s after an unclean shutdown: %d segments to read",
                logs,
                self.directory,
                segments,
            )

    def begin_log(self, segments: int) -> LogRecoveryProgress:
        """Start to recover a log that has this share in ``segments_total``."""
        return LogRecoveryProgress(self, segments)

    def note(self, *, segments: int = 0, logs: int = 0, size_bytes: int = 0) -> None:
        with self._lock:
            self.segments_done += segments
            self.logs_done += logs
            self._bytes += size_bytes
            now_ms = self._clock.monotonic_ms()
            is_due = now_ms - self._logged_ms >= LOG_INTERVAL_MS
            if is_due:
                self._logged_ms = now_ms
        if is_due:
            logger.info(
                "Recovering %s: %d of %d logs opened, %d of %d segments read",
                self.directory,
                self.logs_done,
                self.logs_total,
                self.segments_done,
                self.segments_total,
            )

    def finish(self) -> None:
        if self.logs_total:
            logger.info(
                "Recovered %s: %d logs with %.1f MB in %.1f s",
                self.directory,
                self.logs_done,
                self._bytes / 1e6,
                (self._clock.monotonic_ms() - self._started_ms) / 1000,
            )


class LogRecoveryProgress:
    """The progress of one log."""

    def __init__(self, progress: RecoveryProgress, segments: int) -> None:
        self._progress = progress
        self._segments_left = segments

    def segment_done(self) -> None:
        """Count a segment. Segments with missing indexes are read too, but are not in the total."""
        if self._segments_left:
            self._segments_left -= 1
            self._progress.note(segments=1)

    def finish(self, size_bytes: int) -> None:
        """Count the log; segments that were dropped after the first damage count as done."""
        self._progress.note(segments=self._segments_left, logs=1, size_bytes=size_bytes)
