"""Lists of partitions in the notation of commands: ``orders:0-3,7``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ruslo.model.topics import TopicPartition


def shown_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Format partitions as ``orders:0-3,7 payments:1``."""
    return " ".join(f"{topic}:{numbers}" for topic, numbers in shown_by_topic(partitions))


def shown_by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, str]]:
    """Format partitions by topic: ``("orders", "0-3,7")``."""
    by_topic = itertools.groupby(sorted(partitions), key=lambda partition: partition.topic)
    return [(topic, _ranges([p.partition for p in part])) for topic, part in by_topic]


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
