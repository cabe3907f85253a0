"""How far the recovery of a log directory is: a tagged field of our own in an answer to DescribeLogDirs.

Kafka's clients step over tags that they do not know. The tag is far above those that Kafka gives out one by
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple, Self

TAG = 10_000
VERSION = 4
"""The version of DescribeLogDirs in which a broker that is starting is asked."""
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
