"""Says how far the recovery of a log directory is, now and then."""

from __future__ import annotations

import logging
import time

from ruslo.storage.log import Log

logger = logging.getLogger(__name__)

EVERY_S = 5.0


class RecoveryProgress:
    def __init__(self, directory: str, total: int) -> None:
        self._directory = directory
        self._total = total
        self._began_s = self._told_s = time.monotonic()
        self._logs = self._bytes = 0
        if total:
            logger.info("%s was not closed in order: its %d logs are recovered", directory, total)

    def opened(self, log: Log) -> None:
        self._logs += 1
        self._bytes += log.size_bytes
        now_s = time.monotonic()
        if now_s - self._told_s >= EVERY_S:
            self._told_s = now_s
            logger.info("%s: %d of %d logs are open", self._directory, self._logs, self._total)

    def finished(self) -> None:
        if self._total:
            logger.info(
                "%s: %d logs of %.1f MB are open after %.1f s",
                self._directory,
                self._logs,
                self._bytes / 1e6,
                time.monotonic() - self._began_s,
            )
