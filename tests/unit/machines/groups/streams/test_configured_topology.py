"""The numbers of partitions and tasks that follow from the topics, and topics that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ruslo.machines.groups.streams.configured_topology import MAX_TASKS, ConfiguredTopology, configure
from ruslo.machines.groups.streams.partition_counts import repartition_counts
from ruslo.machines.groups.streams.status import StatusCode
from ruslo.machines.groups.streams.topology import MAX_SUBTOPOLOGIES, requested_topology
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.support.groups.group_bench import Topics
from tests.support.groups.streams_transcript import counting_topology, subtopology


def configured(*subtopologies: Subtopology, **topics: int) -> ConfiguredTopology:
    return configure(requested_topology(Topology(subtopologies=list(subtopologies))), Topics(topics))


def repartition(name: str, partitions: int = 0) -> TopicInfo:
    return TopicInfo(name=name, partitions=partitions)


def missing_counts(topology: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.partition_count for topic in topology.missing}


def test_internal_topics_get_the_partitions_of_their_sources() -> None:
    topology = configure(requested_topology(counting_topology()), Topics({"orders": 6}))
    assert missing_counts(topology) == {"r": 6, "c": 6}
    assert not topology.is_ready
    assert topology.problem is not None
    assert topology.problem.code is StatusCode.MISSING_INTERNAL_TOPICS
    ready = configure(requested_topology(counting_topology()), Topics({"orders": 6, "r": 6, "c": 6}))
    assert ready.is_ready
    assert [(name, each.task_count) for name, each in ready.subtopologies.items()] == [("0", 6), ("1", 6)]
    tasks = ready.for_assignor()
    assert [each.is_stateful for each in tasks.subtopologies.values()] == [False, True]


def test_the_source_with_the_most_partitions_counts() -> None:
    topology = configured(subtopology("0", "a", "b", changelogs=[TopicInfo(name="c")]), a=2, b=5)
    assert missing_counts(topology) == {"c": 5}
    assert topology.subtopologies["0"].task_count == 5


def test_a_chain_of_repartition_topics_in_any_order() -> None:
    topology = configured(
        subtopology("0", reads=[repartition("r2")]),
        subtopology("1", reads=[repartition("r1")], writes=["r2"]),
        subtopology("2", "a", writes=["r1"]),
        a=3,
    )
    assert missing_counts(topology) == {"r1": 3, "r2": 3}


class Scanned(list[Any]):
    """Topics that count how often they are iterated."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        Scanned.times += 1
        return super().__iter__()


def test_a_long_chain_of_repartition_topics_visits_each_subtopology_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Scanned, "times", 0)
    length = 100
    chain = [
        subtopology(str(step), reads=[repartition(f"r{step - 1}")], writes=[f"r{step}"])
        for step in range(length, 0, -1)
    ]
    topology = requested_topology(Topology(subtopologies=[*chain, subtopology("0", "a", writes=["r0"])]))
    for each in topology.subtopologies.values():
        each.repartition_source_topics = Scanned(each.repartition_source_topics)
    counts = repartition_counts(
        list(topology.subtopologies.values()), lambda name: 3 if name == "a" else None
    )
    assert counts == {f"r{step}": 3 for step in range(length + 1)}
    assert Scanned.times <= 5 * (length + 1)


def test_a_given_number_of_partitions_is_kept() -> None:
    topology = configured(
        subtopology("0", "a", writes=["r"]),
        subtopology("1", reads=[repartition("r", 8)], changelogs=[TopicInfo(name="c")]),
        a=3,
    )
    assert missing_counts(topology) == {"r": 8, "c": 8}


def test_configs_and_replicas_of_internal_topics_are_kept() -> None:
    changelog = TopicInfo(
        name="c", replication_factor=3, topic_configs=[KeyValue(key="cleanup.policy", value="compact")]
    )
    (topic,) = configured(subtopology("0", "a", changelogs=[changelog]), a=1).missing
    assert (topic.replication_factor, topic.configs) == (3, {"cleanup.policy": "compact"})


def copartition(sources: list[int], repartitions: list[int]) -> list[CopartitionGroup]:
    return [CopartitionGroup(source_topics=sources, repartition_source_topics=repartitions)]


def test_copartitioned_repartition_topics_follow_the_source_topics() -> None:
    topology = configured(
        subtopology("0", "a", writes=["r"]),
        subtopology("1", "b", reads=[repartition("r")], copartitioned=copartition([0], [0])),
        a=2,
        b=5,
    )
    assert missing_counts(topology) == {"r": 5}


def test_copartitioned_repartition_topics_get_the_maximum_or_the_given_number() -> None:
    writers = subtopology("0", "a", writes=["r1"]), subtopology("1", "b", writes=["r2"])
    joined = subtopology(
        "2", reads=[repartition("r1"), repartition("r2")], copartitioned=copartition([], [0, 1])
    )
    assert missing_counts(configured(*writers, joined, a=2, b=5)) == {"r1": 5, "r2": 5}
    given = subtopology(
        "2", reads=[repartition("r1"), repartition("r2", 3)], copartitioned=copartition([], [0, 1])
    )
    assert missing_counts(configured(*writers, given, a=2, b=5)) == {"r1": 3, "r2": 3}


@pytest.mark.parametrize(
    ("subtopologies", "code"),
    [
        ([subtopology("0", "absent", "a")], StatusCode.MISSING_SOURCE_TOPICS),
        (
            [subtopology("0", "a", "b", copartitioned=copartition([0, 1], []))],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        ),
        (
            [
                subtopology("0", "a", writes=["r"]),
                subtopology("1", "b", reads=[repartition("r", 9)], copartitioned=copartition([0], [0])),
            ],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        ),
        (
            [
                subtopology("0", "a", writes=["r"]),
                subtopology(
                    "1",
                    reads=[repartition("r", 3), repartition("s", 4)],
                    copartitioned=copartition([], [0, 1]),
                ),
            ],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        ),
        (
            [subtopology("0", "a", changelogs=[TopicInfo(name="b")])],
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        ),
    ],
)
def test_topics_that_do_not_fit(subtopologies: list[Subtopology], code: StatusCode) -> None:
    topology = configured(*subtopologies, a=2, b=5)
    assert topology.problem is not None
    assert topology.problem.code is code
    assert not topology.is_ready
    assert not topology.missing


def test_standby_tasks_count_towards_the_limit() -> None:
    topology = configured(subtopology("0", "a"), subtopology("1", "a"), a=MAX_TASKS // 4)
    topology.check_size(1)
    with pytest.raises(KafkaError, match="with 2 standby replicas") as caught:
        topology.check_size(2)
    assert caught.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_many_missing_topics_are_summarized() -> None:
    problem = configured(subtopology("0", *"zyxwv")).problem
    assert problem is not None
    assert problem.detail == "Source topics v, w, x and 2 more are missing."


@pytest.mark.parametrize(
    "subtopologies",
    [
        [subtopology("0", "a"), subtopology("0", "a")],
        [subtopology("0")],
        [subtopology("0", "a", changelogs=[TopicInfo(name="c", partitions=1)])],
        [subtopology("0", "a", reads=[repartition("r", -1)])],
        [subtopology("0", "a", copartitioned=copartition([1], []))],
        [subtopology("0", "a", copartitioned=copartition([-1], []))],
        [subtopology("0", "a", copartitioned=copartition([], [0]))],
        [subtopology("0", "a", reads=[repartition("r")])],
        [subtopology("0", "a", "a")],
        [subtopology("0", "a", writes=["r", "r"])],
        [subtopology("0", "a", reads=[repartition("r", 1), repartition("r", 1)])],
        [subtopology("0", "a", changelogs=[TopicInfo(name="c"), TopicInfo(name="c")])],
        [subtopology("0", reads=[repartition("r")], writes=["r"])],
        [subtopology(str(number), "a") for number in range(MAX_SUBTOPOLOGIES + 1)],
    ],
)
def test_invalid_topologies_are_rejected(subtopologies: list[Subtopology]) -> None:
    with pytest.raises(KafkaError) as caught:
        configured(*subtopologies, a=1)
    assert caught.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert caught.value.message
