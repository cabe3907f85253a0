"""Lists of partitions as they are shown: ``orders:0-3,7`` to people, by topic to programs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ruslo.model.topics import TopicPartition


def shown_partitions(partitions: Iterable[TopicPartition]) -> str:
    """In the notation that commands take: ``orders:0-3,7 payments:1``."""
    return " ".join(f"{topic}:{numbers}" for topic, numbers in shown_by_topic(partitions))


def shown_by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, str]]:
    """As above, in pieces: ``("orders", "0-3,7")``."""
    by_topic = itertools.groupby(sorted(partitions), key=lambda partition: partition.topic)
    return [(topic, _ranges([p.partition for p in part])) for topic, part in by_topic]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The shape that partitions have in JSON."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
