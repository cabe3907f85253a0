from __future__ import annotations

import json

import pytest

from ruslo.cli.offsets.offsets_file import as_rows, format_csv, parse_offsets
from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition

OFFSETS = {TopicPartition("t", 0): 5, TopicPartition("t", 10): 0, TopicPartition("u", 2): 1 << 40}


def test_csv_round_trip() -> None:
    text = format_csv(OFFSETS)
    assert text == f"t,0,5\nt,10,0\nu,2,{1 << 40}\n"
    assert parse_offsets(text, "g") == OFFSETS


def test_json_round_trip() -> None:
    assert parse_offsets(json.dumps(as_rows(OFFSETS)), "g") == OFFSETS


def test_one_group_of_a_file_with_several() -> None:
    text = 'other,t,0,9\ng,t,0,5\n"a ""quoted"", name",t,0,7\n'
    assert parse_offsets(text, "g") == {TopicPartition("t", 0): 5}
    assert parse_offsets(text, 'a "quoted", name') == {TopicPartition("t", 0): 7}
    rows = [{"group": group, "topic": "t", "partition": 1, "offset": n} for group, n in (("g", 2), ("h", 3))]
    assert parse_offsets(json.dumps(rows), "h") == {TopicPartition("t", 1): 3}


def test_spaces_quotes_and_empty_lines_are_harmless() -> None:
    assert parse_offsets('\n"t", 0 ,5\r\n\n', "g") == {TopicPartition("t", 0): 5}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "The file has no offsets of group 'g'"),
        ("[]", "The file has no offsets of group 'g'"),
        ("x,t,0,5\n", "has no offsets of group 'g'; it has offsets of 'x'"),
        ("t,0\n", "line 1 has 2 fields"),
        ("t,0,5\nt,1,soon\n", "line 2: the offset must be an integer of 0 or more, not 'soon'"),
        ("t,-1,5\n", "line 1: the partition must be an integer of 0 or more"),
        ("t,0,5\nt,0,6\n", "line 2: t-0 is listed twice"),
        ("[1]", "entry 1 is not an object"),
        ('[{"topic":"t","partition":0}]', "entry 1: the offset must be an integer of 0 or more, not None"),
        ('[{"topic":"t","partition":true,"offset":1}]', "entry 1: the partition must be an integer"),
        ('{"topic":"t"}', "expected a list"),
        ('[{"topic":\n', "Invalid JSON in line 2"),
    ],
)
def test_mistakes_are_reported(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_offsets(text, "g")
