"""The same scenarios with Apache Kafka: every record it writes and every response is equal."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tests.support.brokers.kafka import ApacheKafka
from tests.support.groups.classic_client import ClassicClient
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import GroupBench, Topics
from tests.support.groups.kafka_bench import (
    PARTITIONS,
    PROPERTIES,
    SETTINGS,
    KafkaBench,
    KafkaTopics,
    check_that_kafka_loads,
    prepared,
)
from tests.support.tools.programs import require_tool


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    require_tool("java")
    directory: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(directory, properties=PROPERTIES) as node:
        yield node


@pytest.fixture(scope="module")
def topics(node: ApacheKafka) -> KafkaTopics:
    return prepared(node)


Scenario = Callable[[Transcript], None]

RESOLVED_PATTERN = b"\x00\x10"
"""The record type of a resolved pattern, with which its keys begin."""
FIRST_JOIN_LINES = 7
"""Records of ``patterns`` after the first member's join and the resolved pattern."""


def second_member(transcript: Transcript) -> None:
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    a.report_owned()
    b.join()
    a.heartbeat()
    a.heartbeat()
    b.heartbeat()
    a.report_owned("reports the revocation")
    b.heartbeat()
    b.report_owned()
    a.heartbeat()
    b.leave()
    a.heartbeat()
    a.leave()


def lost_responses(transcript: Transcript) -> None:
    a, b = Consumer(transcript, "a", "orders"), Consumer(transcript, "b", "orders")
    a.join()
    b.join()
    a.heartbeat()
    a.report_owned("reports the revocation")
    a.epoch = 2
    a.report_owned("missed epoch 3")
    a.epoch = 2
    a.heartbeat("missed the response and reports no partitions")
    a.epoch = 7
    a.heartbeat("sends a future epoch")
    a.join("joins again")
    b.member_id = "c"
    b.heartbeat("has the wrong id")


def static_member(transcript: Transcript) -> None:
    a, b = Consumer(transcript, "a", "orders", instance_id="i"), Consumer(transcript, "b", "orders")
    a.join()
    b.join()
    a.heartbeat()
    a.report_owned("reports the revocation")
    b.heartbeat()
    Consumer(transcript, "c", "orders", instance_id="i").join()
    a.leave(-2)
    b.heartbeat()
    d = Consumer(transcript, "d", "orders", instance_id="i")
    d.join()
    d.heartbeat()
    a.epoch = 3
    a.heartbeat("sends another heartbeat")
    d.leave(-2)
    Consumer(transcript, "e", "parcels", instance_id="i").join()
    b.report_owned()
    b.leave()


def subscriptions(transcript: Transcript) -> None:
    a = Consumer(transcript, "a", "orders")
    a.join()
    a.subscribe("parcels")
    a.report_owned("reports the revocation")
    a.heartbeat()
    b = Consumer(transcript, "b", "orders")
    b.join()
    b.subscribe("orders", "absent")
    b.subscribe()
    b.report_owned("reports the revocation")
    b.heartbeat()
    none = Consumer(transcript, "c")
    none.join()
    none.heartbeat()
    none.leave()
    other = Consumer(transcript, "d", "orders", assignor="range")
    other.join()
    other.assignor = "lottery"
    other.join()


def slow_revocation(transcript: Transcript) -> None:
    """Three members; one is slow to revoke while the others join and leave."""
    a, b, c = (Consumer(transcript, name, "orders") for name in "abc")
    a.join()
    b.join()
    a.heartbeat()
    c.join()
    b.heartbeat()
    c.heartbeat()
    a.report_owned("reports the revocation")
    a.report_owned()
    b.heartbeat()
    c.heartbeat()
    b.report_owned("reports the revocation")
    c.report_owned()
    a.leave()
    b.report_owned()
    c.report_owned()
    b.report_owned()
    c.report_owned()


def back_and_forth(transcript: Transcript) -> None:
    """A classic member joins, then one of the consumer protocol, then only the classic one remains."""
    classic = ClassicClient(transcript.bench, "c", group=transcript.group)
    classic.join()
    if classic.waits:
        transcript.bench.advance(1)
        classic.joined()
    assignment = b"\x00\x01" + struct.pack(">ih6siiiiii", 1, 6, b"orders", 4, 0, 1, 2, 3, -1)
    assert classic.sync({classic.member_id: assignment}) == assignment
    transcript.show()
    transcript.lines.clear()
    a = Consumer(transcript, "a", "orders")
    a.join()
    for step in range(2):
        transcript.step(f"c sends a heartbeat {classic.heartbeat().name}")
        transcript.step(f"c joins {step}")
        response = classic.join()
        assert response is not None
        transcript.show()
        transcript.lines.append(
            f"c in generation {response.generation_id} {response.protocol_name} {response.leader!r}"
        )
        transcript.lines.append(f"c has {classic.sync()!r}")
    a.heartbeat()
    transcript.step(f"c sends a heartbeat {classic.heartbeat().name}")
    a.leave()
    transcript.bench.advance(0)
    transcript.step(f"c sends a heartbeat {classic.heartbeat().name}")
    # The id is random.
    transcript.lines = [line.replace(classic.member_id, "c") for line in transcript.lines]


def change_of_type(transcript: Transcript) -> None:
    """An empty group gets the type of its next member."""
    a = Consumer(transcript, "a", "orders")
    a.join()
    a.leave()
    classic = ClassicClient(transcript.bench, "c", group=transcript.group)
    transcript.step("c joins")
    classic.join()
    if classic.waits:
        transcript.bench.advance(1)
        classic.joined()
    transcript.show()
    transcript.step(f"c leaves {classic.leave().name}")
    transcript.show()
    a.join()
    a.leave()
    transcript.lines = [line.replace(classic.member_id, "c") for line in transcript.lines]


def patterns(transcript: Transcript) -> None:
    a, b = Consumer(transcript, "a", regex="ord.*"), Consumer(transcript, "b", regex="ord.*")
    a.join()
    _resolve(transcript, {"ord.*": ["orders"]})
    a.heartbeat()
    b.join()
    a.report_owned()
    a.report_owned("reports the revocation")
    b.heartbeat()
    Consumer(transcript, "c", regex="(").join()
    a.subscribe("orders")
    b.leave()
    a.leave()


def _resolve(transcript: Transcript, found: dict[str, list[str]]) -> None:
    if not isinstance(transcript.bench, KafkaBench):
        transcript.resolve(found)
        return
    transcript.step("patterns are resolved")
    while not any(logged.key.startswith(RESOLVED_PATTERN) for logged in transcript.bench.log):
        transcript.bench.advance(20)
    transcript.show()


def _sorted_records(transcript: Transcript) -> list[str]:
    """Adjacent records of one type are in the order of a hash map, so they are sorted."""
    reported: list[str] = []
    for _, lines in groupby(transcript.lines, key=lambda line: line.split(" ")[0]):
        together = list(lines)
        reported += sorted(together) if together[0][0] in "x0123456789" else together
    return reported


@pytest.mark.parametrize(
    "scenario",
    [
        second_member,
        lost_responses,
        static_member,
        subscriptions,
        slow_revocation,
        patterns,
        back_and_forth,
        change_of_type,
    ],
)
def test_scenario_is_the_same(node: ApacheKafka, topics: KafkaTopics, scenario: Scenario) -> None:
    group = scenario.__name__
    with socket.create_connection(("127.0.0.1", node.port)) as connection:
        theirs = Transcript(KafkaBench(node, topics, connection, group), group)
        scenario(theirs)
    ours = Transcript(GroupBench(SETTINGS, Topics(PARTITIONS)), group)
    scenario(ours)
    # Kafka resolves a pattern in the background, so its record may precede the response to the first join.
    start = FIRST_JOIN_LINES if scenario is patterns else 0
    assert sorted(_sorted_records(ours)[:start]) == sorted(_sorted_records(theirs)[:start])
    assert _sorted_records(ours)[start:] == _sorted_records(theirs)[start:]


def _in_every_state(bench: GroupBench) -> list[str]:
    """Groups with members of both protocols, in the middle of a rebalance."""
    transcript = Transcript(bench, "unrevoked")
    a, b = (
        Consumer(transcript, "a", "orders", instance_id="i", rack_id="r"),
        Consumer(transcript, "b", "orders"),
    )
    a.join()
    b.join()
    a.heartbeat()

    transcript = Transcript(bench, "pattern")
    c = Consumer(transcript, "c", "parcels", regex="ord.*", assignor="range")
    c.join()
    transcript.resolve({"ord.*": ["orders"]})
    c.heartbeat()

    transcript = Transcript(bench, "stepped-out")
    d = Consumer(transcript, "d", "orders", instance_id="i")
    d.join()
    d.leave(-2)

    transcript = Transcript(bench, "mixed")
    Consumer(transcript, "e", "orders").join()
    classic = ClassicClient(bench, "f", group="mixed")
    assert classic.join() is not None
    assert isinstance(classic.sync(), bytes)

    transcript = Transcript(bench, "emptied")
    g = Consumer(transcript, "g", "orders")
    g.join()
    g.leave()
    return ["unrevoked", "pattern", "stepped-out", "mixed", "emptied"]


def _described(bench: GroupBench, groups: list[str]) -> list[DescribedGroup]:
    response = bench.call(ConsumerGroupDescribeRequest(group_ids=groups), ConsumerGroupDescribeResponse)
    for group in response.groups:
        group.members.sort(key=lambda member: member.member_id)
        for member in group.members:
            for assignment in (member.assignment, member.target_assignment):
                assignment.topic_partitions.sort(key=lambda topic: topic.topic_name)
                for topic in assignment.topic_partitions:
                    topic.partitions.sort()
    return response.groups


def test_kafka_loads_the_records_that_we_write(tmp_path: Path) -> None:
    require_tool("java")
    check_that_kafka_loads(tmp_path, PROPERTIES, SETTINGS, _in_every_state, _described)
