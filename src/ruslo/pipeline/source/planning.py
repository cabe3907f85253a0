"""Splits what a query reads into a few tasks of about the same size.

A Python task costs Spark 14 to 50 ms, so one task reads several small partitions. A large partition is split
into offset ranges that several tasks read. Sizes are estimates from the average record.
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
"""A range of up to 1.5 times the task size stays one task: starting another one would cost more."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets start ≤ offset < end of one partition."""

    partition: TopicPartition
    topic_id: Uuid
    start: int
    end: int
    bytes_per_offset: float
    log_dir: str | None = None
    """The leader's directory of the partition, for a direct scan."""

    @property
    def count(self) -> int:
        return self.end - self.start

    @property
    def size_bytes(self) -> float:
        return self.count * self.bytes_per_offset


def plan_tasks(
    ranges: Sequence[OffsetRange],
    bytes_per_task: int,
    *,
    min_tasks: int = 0,
    max_records_per_task: int | None = None,
) -> list[tuple[OffsetRange, ...]]:
    """The offset ranges of each task; within a task the offsets of a partition are in order."""
    wanted = [r for r in ranges if r.count > 0]
    target, slack = float(bytes_per_task), _SLACK
    if min_tasks > 1:
        smaller = max(1.0, sum(r.size_bytes for r in wanted) / min_tasks)
        if smaller < target:
            target, slack = smaller, 0.0  # min_tasks is a minimum, not an estimate
    tasks: list[list[OffsetRange]] = []
    room_bytes, room_records = 0.0, 0.0
    record_limit = math.inf if max_records_per_task is None else max_records_per_task
    for offset_range in wanted:
        for piece in _split(offset_range, target, slack, max_records_per_task):
            if not tasks or piece.size_bytes > room_bytes or piece.count > room_records:
                tasks.append([])
                room_bytes, room_records = target, record_limit
            _append(tasks[-1], piece)
            room_bytes -= piece.size_bytes
            room_records -= piece.count
    return [tuple(task) for task in tasks]


def _split(
    offset_range: OffsetRange, target_bytes: float, slack: float, max_records: int | None
) -> list[OffsetRange]:
    pieces = math.ceil(offset_range.size_bytes / target_bytes - slack)
    if max_records is not None:
        pieces = max(pieces, math.ceil(offset_range.count / max_records))
    pieces = max(1, min(pieces, offset_range.count))
    bounds = [offset_range.start + offset_range.count * at // pieces for at in range(pieces + 1)]
    return [replace(offset_range, start=start, end=end) for start, end in pairwise(bounds)]


def _append(task: list[OffsetRange], piece: OffsetRange) -> None:
    """A task has one range per partition: adjacent ranges are merged."""
    if task and task[-1].partition == piece.partition:
        task[-1] = replace(task[-1], end=piece.end)
    else:
        task.append(piece)
