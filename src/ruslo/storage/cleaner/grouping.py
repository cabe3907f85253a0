"""Groups adjacent segments that become one: as many as fit, by their sizes before the round, as in Kafka."""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.storage.cleaner.task import CleanTask, SourceSegment
from ruslo.storage.disk import Disk
from ruslo.storage.roll_limits import MAX_RELATIVE_OFFSET
from ruslo.storage.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_stem


def group_segments(disk: Disk, task: CleanTask) -> list[list[SourceSegment]]:
    groups: list[list[SourceSegment]] = []
    sizes = (0, 0, 0)
    for segment in task.segments:
        added = _sizes(disk, task.path, segment)
        joined = tuple(map(sum, zip(sizes, added, strict=True)))
        if (
            groups
            and joined[0] <= task.segment_bytes
            and joined[1] <= task.segment_index_bytes
            and joined[2] <= task.segment_index_bytes
            and (not segment.size or segment.next_base - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
            sizes = (joined[0], joined[1], joined[2])
        else:
            groups.append([segment])
            sizes = added
    return groups


def bases(group: Sequence[SourceSegment]) -> list[int]:
    return [segment.base_offset for segment in group]


def _sizes(disk: Disk, log_path: str, segment: SourceSegment) -> tuple[int, int, int]:
    stem = segment_stem(log_path, segment.base_offset)
    offsets, times = disk.status(stem + INDEX_SUFFIX), disk.status(stem + TIME_INDEX_SUFFIX)
    return segment.size, offsets.size if offsets else 0, times.size if times else 0
