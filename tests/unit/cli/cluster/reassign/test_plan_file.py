from __future__ import annotations

import json

import pytest

from ruslo.cli.cluster.reassign.plan_file import Plan, format_plan, parse_plan, plan_as_json
from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition

B10, B2, A0 = TopicPartition("b", 10), TopicPartition("b", 2), TopicPartition('a"', 0)
PLAN = Plan({B10: (3, 1), B2: (1,), A0: (1, 2, 3)}, {1: {B2: "/data/1", A0: "/data/2"}, 3: {A0: "/data/1"}})


def test_round_trip() -> None:
    assert parse_plan(format_plan(PLAN)) == PLAN
    assert json.loads(format_plan(PLAN)) == plan_as_json(PLAN)
    assert parse_plan(format_plan(Plan({}))) == Plan({})
    t0 = TopicPartition("t", 0)
    assert format_plan(Plan({t0: (1, 2)})) == (
        '{"version":1,"partitions":[\n  {"topic":"t","partition":0,"replicas":[1,2]}\n]}\n'
    )
    assert '"log_dirs":["any","/d"]' in format_plan(Plan({t0: (1, 2)}, {2: {t0: "/d"}}))


def test_a_part_of_a_plan() -> None:
    assert PLAN.only({B2, B10}) == Plan({B10: (3, 1), B2: (1,)}, {1: {B2: "/data/1"}})


def test_plans_of_apache_kafka_are_accepted() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3],"log_dirs":["any","any"]}]}'
    )
    assert parse_plan(text) == Plan({TopicPartition("t", 0): (2, 3)})
    assert parse_plan('{"partitions":[]}') == Plan({})
    named = parse_plan(text.replace('"any",', '"/data/1",'))
    assert named.log_dirs == {2: {TopicPartition("t", 0): "/data/1"}}


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
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/data","any"]}]}',
            'as many "log_dirs" as "replicas"',
        ),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":"any"}]}',
            'as many "log_dirs" as "replicas"',
        ),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["data"]}]}', "absolute path"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":[1]}]}', "absolute path"),
    ],
)
def test_mistakes_are_reported(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_plan(text)
