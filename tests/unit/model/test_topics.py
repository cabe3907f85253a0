"""Valid topic names."""

from __future__ import annotations

import pytest

from ruslo.model.topics import MAX_NAME_LENGTH, TopicPartition, topic_name_problem


@pytest.mark.parametrize("name", ["a", "orders", "A.b_c-9", "...", "x" * MAX_NAME_LENGTH])
def test_legal_names(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "cannot be"),
        ("..", "cannot be"),
        ("x" * (MAX_NAME_LENGTH + 1), "250 characters"),
        ("a b", "characters other than"),
        ("a/b", "characters other than"),
        ("naïve", "characters other than"),
        ("a\n", "characters other than"),
    ],
)
def test_illegal_names_are_explained(name: str, reason: str) -> None:
    problem = topic_name_problem(name)
    assert problem is not None
    assert reason in problem


def test_a_partition_is_written_as_its_directory_is_named() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
