from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.planning import Span, plan_tasks

ID = bytes(16)


def span(number: int, start: int, end: int, bytes_per_offset: float = 1.0) -> Span:
    return Span(TopicPartition("t", number), ID, start, end, bytes_per_offset)


def bounds(tasks: list[tuple[Span, ...]]) -> list[list[tuple[int, int, int]]]:
    return [[(s.partition.partition, s.start, s.end) for s in task] for task in tasks]


def test_small_partitions_share_a_task() -> None:
    assert bounds(plan_tasks([span(0, 0, 10), span(1, 5, 15), span(2, 0, 80)], 100)) == [
        [(0, 0, 10), (1, 5, 15), (2, 0, 80)]
    ]


def test_a_large_partition_is_cut_into_spans_of_one_size() -> None:
    assert bounds(plan_tasks([span(0, 50, 310)], 100)) == [[(0, 50, 136)], [(0, 136, 223)], [(0, 223, 310)]]


def test_what_is_a_little_too_large_stays_whole_unless_more_tasks_are_asked_for() -> None:
    assert len(plan_tasks([span(0, 0, 140), span(1, 0, 140)], 100)) == 2
    assert len(plan_tasks([span(0, 0, 160)], 100)) == 2
    assert len(plan_tasks([span(0, 0, 140), span(1, 0, 140), span(2, 0, 140)], 400, min_tasks=4)) >= 4


def test_empty_partitions_need_no_task() -> None:
    assert plan_tasks([span(0, 5, 5), span(1, 0, 0)], 100) == []


def test_more_tasks_when_asked_for() -> None:
    assert len(plan_tasks([span(0, 0, 100)], 1000, min_tasks=4)) == 4


def test_few_records_per_task_when_asked_for() -> None:
    tasks = plan_tasks([span(0, 0, 100), span(1, 0, 5)], 10**9, max_records_per_task=30)
    assert all(sum(s.count for s in task) <= 30 for task in tasks)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000), st.floats(0.5, 100)), max_size=12),
    st.integers(1, 10**5),
    st.integers(0, 10),
    st.none() | st.integers(1, 1000),
)
def test_every_offset_is_read_once_and_no_task_is_much_too_large(
    parts: list[tuple[int, int, float]], bytes_per_task: int, min_tasks: int, max_records: int | None
) -> None:
    spans = [span(n, start, start + count, size) for n, (start, count, size) in enumerate(parts)]
    tasks = plan_tasks(spans, bytes_per_task, min_tasks=min_tasks, max_records_per_task=max_records)
    for whole in spans:
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
