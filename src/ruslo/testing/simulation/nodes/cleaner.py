"""Compaction without a process: it is done when it begins, and its reports are received one by one."""

from __future__ import annotations

from collections import deque

from ruslo.broker.partitions.cleaner_process import CleanerDied
from ruslo.storage.cleaner.round import run_round
from ruslo.storage.cleaner.task import CleanTask, Report
from ruslo.storage.disk import Disk


class SimCleaner:
    """Each segment is swapped in at a time of its own, so that the node may die between any two of them."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._reports: deque[Report] = deque()

    def send(self, task: CleanTask) -> None:
        self.stop()
        run_round(self._disk, task, self._reports.append)

    def receive(self) -> Report:
        if not self._reports:
            raise CleanerDied("the cleaner process was stopped")
        report = self._reports.popleft()
        if report.done is not None:
            # The log line has the duration: real time would make two runs of a seed differ.
            report.done.seconds = 0.0
        return report

    def stop(self) -> None:
        self._reports.clear()

    kill = raise_priority = stop
