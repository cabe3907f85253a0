"""The progress of log recovery: Ruslo's own tagged field in DescribeLogDirs responses.

Kafka's clients skip unknown tags. The tag is far above those that Kafka assigns.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple, Self

TAG = 10_000
VERSION = 4
"""The version of the DescribeLogDirs requests that a starting broker answers."""
_FIELDS = Struct(">iiii")


class Recovery(NamedTuple):
    logs_done: int
    logs_total: int
    segments_done: int
    segments_total: int

    @classmethod
    def from_tags(cls, tags: Mapping[int, bytes] | None) -> Self | None:
        data = (tags or {}).get(TAG, b"")
        return cls(*_FIELDS.unpack(data)) if len(data) == _FIELDS.size else None

    def as_tags(self) -> dict[int, bytes]:
        return {TAG: _FIELDS.pack(*self)}
