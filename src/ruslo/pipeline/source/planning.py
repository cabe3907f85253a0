"""Cuts what a query reads into few tasks of about the same size.

A Python task costs Spark 14 to 50 ms, so that small partitions are read together by one; a large partition
is read by many at once, each a span of its offsets. Sizes are estimates: where records differ much in size,
so do tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition

_SLACK: Final = 0.5
"""What is 1.4 times the size of a task is one task: two small ones would spend more on their start."""


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets start ≤ offset < end of one partition."""

    partition: TopicPartition
    topic_id: Uuid
    start: int
    end: int
    bytes_per_offset: float
    log_dir: str | None = None
    """Where the leader keeps the partition, for a direct scan."""

    @property
    def count(self) -> int:
        return self.end - self.start

    @property
    def size_bytes(self) -> float:
        return self.count * self.bytes_per_offset


def plan_tasks(
    spans: Sequence[Span],
    bytes_per_task: int,
    *,
    min_tasks: int = 0,
    max_records_per_task: int | None = None,
) -> list[tuple[Span, ...]]:
    """The spans of each task; offsets of a partition stay in their order within a task."""
    wanted = [span for span in spans if span.count > 0]
    target, slack = float(bytes_per_task), _SLACK
    if min_tasks > 1:
        smaller = max(1.0, sum(span.size_bytes for span in wanted) / min_tasks)
        if smaller < target:
            target, slack = smaller, 0.0  # at least so many, not about so many
    tasks: list[list[Span]] = []
    room_bytes, room_records = 0.0, 0.0
    record_limit = math.inf if max_records_per_task is None else max_records_per_task
    for span in wanted:
        for piece in _cut(span, target, slack, max_records_per_task):
            if not tasks or piece.size_bytes > room_bytes or piece.count > room_records:
                tasks.append([])
                room_bytes, room_records = target, record_limit
            _append(tasks[-1], piece)
            room_bytes -= piece.size_bytes
            room_records -= piece.count
    return [tuple(task) for task in tasks]


def _cut(span: Span, target_bytes: float, slack: float, max_records: int | None) -> list[Span]:
    pieces = math.ceil(span.size_bytes / target_bytes - slack)
    if max_records is not None:
        pieces = max(pieces, math.ceil(span.count / max_records))
    pieces = max(1, min(pieces, span.count))
    bounds = [span.start + span.count * at // pieces for at in range(pieces + 1)]
    return [replace(span, start=start, end=end) for start, end in pairwise(bounds)]


def _append(task: list[Span], piece: Span) -> None:
    """A task has one span of a partition: neighbours become one."""
    if task and task[-1].partition == piece.partition:
        task[-1] = replace(task[-1], end=piece.end)
    else:
        task.append(piece)
