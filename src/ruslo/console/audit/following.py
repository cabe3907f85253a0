"""New events of audit logs, as brokers write them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ruslo.console.audit.backwards import LINE_MAX_BYTES
from ruslo.console.audit.events import AuditEvent, parse_event

READ_MAX_BYTES = 2 * LINE_MAX_BYTES
"""The most that one look reads of a file; the next one continues there."""


class FollowedLog:
    def __init__(self, path: str) -> None:
        """Begins at the end of the file. A file that does not exist yet is read from its beginning."""
        self._path = path
        self._inode, self._position = 0, 0
        try:
            status = os.stat(path)
        except OSError:
            return
        self._inode, self._position = status.st_ino, status.st_size

    def read_new(self) -> list[AuditEvent]:
        """Complete lines that were added. A log that was replaced or truncated is read from its beginning."""
        try:
            with open(self._path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._position:
                    self._inode, self._position = status.st_ino, 0
                file.seek(self._position)
                data = file.read(READ_MAX_BYTES)
        except OSError:
            return []  # logrotate is moving it; the page names a file that stays unreadable
        end = data.rfind(b"\n") + 1
        if not end and len(data) == READ_MAX_BYTES:
            end = len(data)  # not a line of an audit log
        self._position += end
        events = [parse_event(line) for line in data[:end].splitlines()]
        return [event for event in events if event is not None]


def read_new(logs: Sequence[FollowedLog]) -> list[AuditEvent]:
    """The new events of all logs, the newest first. Blocks."""
    found = [event for log in logs for event in log.read_new()]
    return sorted(found, key=lambda event: -event.time_ms)
