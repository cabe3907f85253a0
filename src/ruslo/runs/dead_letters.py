"""What a dead letter tells of itself: headers with where it came from and what was wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

REASON: Final = "ruslo.error.reason"
TOPIC: Final = "ruslo.source.topic"
PARTITION: Final = "ruslo.source.partition"
OFFSET: Final = "ruslo.source.offset"
ABOUT_IT: Final = frozenset({REASON, TOPIC, PARTITION, OFFSET})


class Origin(NamedTuple):
    topic: str
    partition: int
    reason: str


def origin_of(headers: Iterable[tuple[str, bytes | None]]) -> Origin | None:
    """The last word counts: a letter that died twice carries its headers twice. None for other records."""
    told = {name: value.decode(errors="replace") for name, value in headers if name in ABOUT_IT and value}
    topic, partition = told.get(TOPIC), told.get(PARTITION, "")
    if not topic or not partition.isdecimal():
        return None
    return Origin(topic, int(partition), told.get(REASON, "no reason given"))
