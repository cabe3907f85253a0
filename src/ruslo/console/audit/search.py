"""One page of events from several audit logs, the newest first, with bounded work."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from ruslo.console.audit.backwards import lines_backwards
from ruslo.console.audit.events import AuditEvent, AuditFilter, parse_event

SCAN_MAX_BYTES = 32 * 1024 * 1024
"""The work for one page; the next page continues there."""


@dataclass(slots=True)
class AuditPage:
    events: list[AuditEvent] = field(default_factory=list)
    next_page: str = ""
    """Where the next page begins; empty at the beginning of all logs."""
    is_incomplete: bool = False
    """Whether the search stopped at its limit before the page was full."""
    problems: list[str] = field(default_factory=list)
    """Files that could not be read."""
    unreadable_lines: int = 0


class _Log:
    """One file, read from a position towards its beginning."""

    def __init__(self, path: str, cursor: str) -> None:
        self.path = path
        self.file: BinaryIO = open(path, "rb")  # noqa: SIM115 - closed by `search`
        status = os.fstat(self.file.fileno())
        self._inode = status.st_ino
        inode, _, position = cursor.partition("-")
        same = inode == str(self._inode) and position.isdecimal() and int(position) <= status.st_size
        # Another file is there if logrotate has moved the old one away.
        self.position = int(position) if same else status.st_size

    @property
    def cursor(self) -> str:
        return f"{self._inode}-{self.position}"


def search(paths: Sequence[str], wanted: AuditFilter, limit: int, cursor: str = "") -> AuditPage:
    """The newest events that match, before the position ``cursor`` of an earlier page. Blocks."""
    page = AuditPage()
    cursors = cursor.split(".")
    logs: list[_Log] = []
    try:
        for at, path in enumerate(paths):
            try:
                logs.append(_Log(path, cursors[at] if at < len(cursors) else ""))
            except OSError as error:
                page.problems.append(
                    f"{path} cannot be read: {error.strerror}. Check the path, that the console may read it, "
                    "and that ruslo.audit.log of the brokers names it."
                )
        _fill(page, logs, wanted, limit)
        if any(log.position > 0 for log in logs):
            remaining = {log.path: log.cursor for log in logs}
            page.next_page = ".".join(remaining.get(path, "") for path in paths)
    finally:
        for log in logs:
            log.file.close()
    return page


def _fill(page: AuditPage, logs: Sequence[_Log], wanted: AuditFilter, limit: int) -> None:
    """Move each log to the last event of the page."""
    scanned = 0
    for _, begin, log, event in heapq.merge(
        *(_newest_first(log, at) for at, log in enumerate(logs)), key=lambda found: found[0]
    ):
        if len(page.events) >= limit:
            return
        if scanned >= SCAN_MAX_BYTES:
            page.is_incomplete = True
            return
        if event is not None and wanted.from_ms is not None and event.time_ms < wanted.from_ms:
            break  # All other events are older.
        scanned += log.position - begin
        log.position = begin
        if event is None:
            page.unreadable_lines += 1
        elif wanted.matches(event):
            page.events.append(event)
    for log in logs:
        log.position = 0


def _newest_first(log: _Log, number: int) -> Iterator[tuple[tuple[int, int], int, _Log, AuditEvent | None]]:
    """The events of a log with their order; None for a line that is not an event."""
    time_ms = time.time_ns() // 1_000_000
    for begin, line in lines_backwards(log.file, log.position):
        event = parse_event(line)
        if event is not None:
            time_ms = event.time_ms
        yield (-time_ms, number), begin, log, event
