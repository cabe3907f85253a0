from __future__ import annotations

import pytest

from ruslo.cli.arguments.partition_scope import Scope, parse_scope
from ruslo.client.views.partition_lists import shown_partitions
from ruslo.client.wire.by_topic import indexes_by_topic
from ruslo.model.topics import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", Scope("orders", None)),
        ("orders:0", Scope("orders", (0,))),
        ("orders:2,0, 2", Scope("orders", (0, 2))),
        ("orders:0-3,7", Scope("orders", (0, 1, 2, 3, 7))),
        ("a.b_c-d:5-5", Scope("a.b_c-d", (5,))),
    ],
)
def test_scopes(text: str, expected: Scope) -> None:
    assert parse_scope(text) == expected


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:x", "t:-1", "t:3-1", "t:1,,2", "t:0-999999999", "t:1:2"])
def test_invalid_scopes(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no topic name|is not a partition. Write"):
        parse_scope(text)


def test_partitions_are_printed_in_the_input_syntax() -> None:
    partitions = [TopicPartition("t", n) for n in (7, 0, 1, 2)] + [TopicPartition("a", 4)]
    assert shown_partitions(partitions) == "a:4 t:0-2,7"
    assert shown_partitions([]) == ""
    assert parse_scope("t:0-2,7").partitions == (0, 1, 2, 7)


def test_partitions_by_topic() -> None:
    partitions = [TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0)]
    assert indexes_by_topic(partitions) == {"a": [1, 2], "b": [0]}
