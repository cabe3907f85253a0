"""The conditions that a heartbeat response reports beside the assignment."""

from __future__ import annotations

import enum

from ruslo.protocol.messages.streams_group_heartbeat_response import Status


class StatusCode(enum.IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6
    """Since v1."""


MISSING_CLIENT_TAGS_MIN_VERSION = 1


def status(code: StatusCode, detail: str) -> Status:
    return Status(status_code=code, status_detail=detail)
