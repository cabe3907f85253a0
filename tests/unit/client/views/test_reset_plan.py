from __future__ import annotations

import pytest

from ruslo.cli.arguments.partition_scope import parse_scope
from ruslo.cli.group.reset_scope import committed_in
from ruslo.client.views.reset_plan import Move
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_a_move_counts_skipped_and_replayed_offsets() -> None:
    forward = Move(T0, current=10, new=15, end=20, wanted=15)
    back = Move(T0, current=10, new=4, end=20, wanted=4)
    first = Move(T0, current=None, new=4, end=20, wanted=4)
    assert (forward.skipped, forward.replayed, forward.note) == (5, 0, None)
    assert (back.skipped, back.replayed) == (0, 6)
    assert (first.skipped, first.replayed) == (None, None)


def test_a_clamped_move_has_a_note() -> None:
    assert Move(T0, current=1, new=5, end=9, wanted=2).note == "2 requested, first is 5"
    assert Move(T0, current=1, new=9, end=9, wanted=99).note == "99 requested, last is 9"


def test_committed_partitions_by_scope() -> None:
    committed = [U0, T1, T0]
    assert committed_in("g", committed, []) == [T0, T1, U0]
    assert committed_in("g", committed, [parse_scope("t")]) == [T0, T1]
    assert committed_in("g", committed, [parse_scope("t:1"), parse_scope("u"), parse_scope("t:1")]) == [
        T1,
        U0,
    ]


@pytest.mark.parametrize(
    ("scope", "problem"),
    [("t:0,5", "nothing for t-5"), ("absent", "nothing for topic 'absent'"), ("u:1", "nothing for u-1")],
)
def test_partitions_without_a_committed_offset_are_named(scope: str, problem: str) -> None:
    with pytest.raises(KafkaError, match=f"group 'g' has committed {problem}"):
        committed_in("g", [T0, U0], [parse_scope(scope)])


def test_a_group_without_offsets() -> None:
    with pytest.raises(KafkaError, match="group 'g' has committed no offsets"):
        committed_in("g", [], [])
