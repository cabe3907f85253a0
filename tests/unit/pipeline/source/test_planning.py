from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.planning import OffsetRange, plan_tasks

ID = bytes(16)


def offset_range(number: int, start: int, end: int, bytes_per_offset: float = 1.0) -> OffsetRange:
    return OffsetRange(TopicPartition("t", number), ID, start, end, bytes_per_offset)


def bounds(tasks: list[tuple[OffsetRange, ...]]) -> list[list[tuple[int, int, int]]]:
    return [[(s.partition.partition, s.start, s.end) for s in task] for task in tasks]


def test_small_partitions_share_a_task() -> None:
    assert bounds(
        plan_tasks([offset_range(0, 0, 10), offset_range(1, 5, 15), offset_range(2, 0, 80)], 100)
    ) == [[(0, 0, 10), (1, 5, 15), (2, 0, 80)]]


def test_a_large_partition_is_split_into_equal_ranges() -> None:
    assert bounds(plan_tasks([offset_range(0, 50, 310)], 100)) == [
        [(0, 50, 136)],
        [(0, 136, 223)],
        [(0, 223, 310)],
    ]


def test_a_slightly_larger_range_is_split_only_for_min_tasks() -> None:
    assert len(plan_tasks([offset_range(0, 0, 140), offset_range(1, 0, 140)], 100)) == 2
    assert len(plan_tasks([offset_range(0, 0, 160)], 100)) == 2
    assert (
        len(
            plan_tasks(
                [offset_range(0, 0, 140), offset_range(1, 0, 140), offset_range(2, 0, 140)], 400, min_tasks=4
            )
        )
        >= 4
    )


def test_empty_partitions_need_no_task() -> None:
    assert plan_tasks([offset_range(0, 5, 5), offset_range(1, 0, 0)], 100) == []


def test_min_tasks() -> None:
    assert len(plan_tasks([offset_range(0, 0, 100)], 1000, min_tasks=4)) == 4


def test_max_records_per_task() -> None:
    tasks = plan_tasks([offset_range(0, 0, 100), offset_range(1, 0, 5)], 10**9, max_records_per_task=30)
    assert all(sum(s.count for s in task) <= 30 for task in tasks)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000), st.floats(0.5, 100)), max_size=12),
    st.integers(1, 10**5),
    st.integers(0, 10),
    st.none() | st.integers(1, 1000),
)
def test_every_offset_is_read_once_and_tasks_keep_their_size(
    parts: list[tuple[int, int, float]], bytes_per_task: int, min_tasks: int, max_records: int | None
) -> None:
    ranges = [offset_range(n, start, start + count, size) for n, (start, count, size) in enumerate(parts)]
    tasks = plan_tasks(ranges, bytes_per_task, min_tasks=min_tasks, max_records_per_task=max_records)
    for whole in ranges:
        pieces = sorted((s.start, s.end) for task in tasks for s in task if s.partition == whole.partition)
        covered = whole.start
        for start, end in pieces:
            assert start == covered
            assert end > start
            covered = end
        assert covered == whole.end
    for task in tasks:
        assert len({s.partition for s in task}) == len(task)
        largest_record = max(s.bytes_per_offset for s in task)
        assert sum(s.size_bytes for s in task) <= 1.5 * bytes_per_task + largest_record
        assert max_records is None or sum(s.count for s in task) <= max_records
