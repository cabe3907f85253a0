"""The headers of a dead letter: the origin of the record, and the reason why it could not be decoded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

REASON: Final = "ruslo.error.reason"
TOPIC: Final = "ruslo.source.topic"
PARTITION: Final = "ruslo.source.partition"
OFFSET: Final = "ruslo.source.offset"
ORIGIN_HEADERS: Final = frozenset({REASON, TOPIC, PARTITION, OFFSET})


class Origin(NamedTuple):
    topic: str
    partition: int
    reason: str


def origin_of(headers: Iterable[tuple[str, bytes | None]]) -> Origin | None:
    """None if the record is not a dead letter. If it failed twice, the last origin applies."""
    found = {
        name: value.decode(errors="replace") for name, value in headers if name in ORIGIN_HEADERS and value
    }
    topic, partition = found.get(TOPIC), found.get(PARTITION, "")
    if not topic or not partition.isdecimal():
        return None
    return Origin(topic, int(partition), found.get(REASON, "no reason given"))
