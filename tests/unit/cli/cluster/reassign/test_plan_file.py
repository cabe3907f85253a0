from __future__ import annotations

import json

import pytest

from ruslo.cli.cluster.reassign.plan_file import format_plan, parse_plan, plan_as_json
from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition

PLAN = {TopicPartition("b", 10): (3, 1), TopicPartition("b", 2): (1,), TopicPartition('a"', 0): (1, 2, 3)}


def test_round_trip() -> None:
    assert parse_plan(format_plan(PLAN)) == PLAN
    assert json.loads(format_plan(PLAN)) == plan_as_json(PLAN)
    assert parse_plan(format_plan({})) == {}
    assert format_plan({TopicPartition("t", 0): (1, 2)}) == (
        '{"version":1,"partitions":[\n  {"topic":"t","partition":0,"replicas":[1,2]}\n]}\n'
    )


def test_plans_of_apache_kafka_are_accepted() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3],"log_dirs":["any","any"]}]}'
    )
    assert parse_plan(text) == {TopicPartition("t", 0): (2, 3)}
    assert parse_plan('{"partitions":[]}') == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("plan", "Invalid JSON"),
        ("[]", "expected an object"),
        ('{"version":1}', "a list of"),
        ('{"version":2,"partitions":[]}', "version 2"),
        ('{"partitions":[1]}', "entry 1 is not an object"),
        ('{"partitions":[{"partition":0,"replicas":[1]}]}', "entry 1 needs"),
        ('{"partitions":[{"topic":"t","partition":true,"replicas":[1]}]}', "entry 1 needs"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "t-0 needs"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}', "t-0 needs"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "t-0 lists a broker twice"),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
            '{"topic":"t","partition":0,"replicas":[2]}]}',
            "t-0 is listed twice",
        ),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/data"]}]}',
            "t-0 lists log directories",
        ),
    ],
)
def test_mistakes_are_reported(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_plan(text)
