from __future__ import annotations

import pytest

from ruslo.cli.arguments.partition_scope import parse_scope
from ruslo.cli.offsets.reset_scope import committed_in
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


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
    [("t:0,5", "t-5"), ("absent", "topic 'absent'"), ("u:1", "u-1")],
)
def test_partitions_without_a_committed_offset_are_named(scope: str, problem: str) -> None:
    with pytest.raises(KafkaError, match=f"Group 'g' has no committed offset for {problem}"):
        committed_in("g", [T0, U0], [parse_scope(scope)])


def test_a_group_without_offsets() -> None:
    with pytest.raises(KafkaError, match="Group 'g' has no committed offsets"):
        committed_in("g", [], [])
