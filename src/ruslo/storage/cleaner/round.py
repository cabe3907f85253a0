"""Runs a round of compaction and reports it to the broker: every new segment, and the end."""

from __future__ import annotations

from collections.abc import Callable

from ruslo.model.errors import CorruptLogError
from ruslo.storage.cleaner.cpu_priority import Starving
from ruslo.storage.cleaner.job import clean, remove_unfinished
from ruslo.storage.cleaner.task import CleanTask, Failure, Report
from ruslo.storage.disk import Disk, DiskError


def run_round(
    disk: Disk,
    task: CleanTask,
    send: Callable[[Report], None],
    on_progress: Callable[[], None] = lambda: None,
) -> None:
    """``on_progress`` is called often and may end the round with ``Starving``."""
    try:
        report = Report(done=clean(disk, task, lambda segment: send(Report(segment=segment)), on_progress))
    except DiskError as error:
        report = _clean_up(disk, task, _failure_of(error))
    except CorruptLogError as error:
        report = _clean_up(disk, task, Failure(str(error)))
    except Starving:
        report = _clean_up(disk, task, None)
    send(report)


def _clean_up(disk: Disk, task: CleanTask, failure: Failure | None) -> Report:
    try:
        remove_unfinished(disk, task.path)
    except DiskError as error:
        failure = _failure_of(error)
    return Report(failure=failure, starving=failure is None)


def _failure_of(error: DiskError) -> Failure:
    return Failure(str(error), error.errno or 0, error.path)
