"""The same scenarios with Apache Kafka: every record it writes and every response is equal."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from ruslo.machines.groups.settings import GroupSettings
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from ruslo.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    TopicInfo,
    Topology,
)
from tests.support.brokers.kafka import ApacheKafka
from tests.support.groups.classic_client import ClassicClient
from tests.support.groups.group_bench import GroupBench, Topics
from tests.support.groups.kafka_bench import (
    PARTITIONS,
    PROPERTIES,
    KafkaBench,
    KafkaTopics,
    prepared,
)
from tests.support.groups.streams_transcript import (
    NO_DELAY,
    StreamsTranscript,
    StreamThread,
    counting_topology,
    stateless_topology,
    subtopology,
)
from tests.support.tools.programs import require_tool

SETTINGS = GroupSettings(streams=NO_DELAY, initial_rebalance_delay_ms=0)
TOPICS_EXIST_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    require_tool("java")
    directory: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(directory, properties=PROPERTIES) as node:
        yield node


@pytest.fixture(scope="module")
def topics(node: ApacheKafka) -> KafkaTopics:
    return prepared(node)


def topology_of(transcript: StreamsTranscript) -> Topology:
    """Each scenario has internal topics of its own."""
    return counting_topology(prefix=f"{transcript.group}-")


def thread(transcript: StreamsTranscript, name: str, topology: Topology | None = None) -> StreamThread:
    return StreamThread(transcript, name, topology or topology_of(transcript))


def heartbeat_when_topics_exist(transcript: StreamsTranscript, member: StreamThread) -> None:
    """A broker creates the internal topics itself; on the bench of the machine they are created here."""
    if not isinstance(transcript.bench, KafkaBench):
        transcript.create_missing_topics()
        transcript.lines.pop()
    start = len(transcript.lines)
    deadline = time.monotonic() + TOPICS_EXIST_WITHIN_S
    member.heartbeat()
    while "MISSING_INTERNAL_TOPICS" in transcript.lines[-1]:
        assert time.monotonic() < deadline, "the internal topics were not created"
        del transcript.lines[start:]
        time.sleep(0.05)
        member.heartbeat()


def two_members(transcript: StreamsTranscript) -> None:
    a, b = thread(transcript, "a"), thread(transcript, "b")
    a.join()
    heartbeat_when_topics_exist(transcript, a)
    a.report_tasks()
    b.join()
    a.heartbeat()
    a.heartbeat("still has its tasks")
    b.heartbeat()
    a.report_tasks("reports the revocation")
    b.heartbeat()
    b.report_tasks()
    describe(transcript)
    b.leave()
    a.heartbeat()
    a.leave()
    describe(transcript)


def errors(transcript: StreamsTranscript) -> None:
    topology = stateless_topology()
    a = thread(transcript, "a", topology)
    a.heartbeat("joins with epoch 0 and nothing else")
    a.epoch = 1
    a.heartbeat("beats in an unknown group")
    a.leave()
    a.join()
    a.report_tasks()
    tasks = a.active
    a.epoch = 1
    a.heartbeat("has an old epoch")
    a.epoch = 9
    a.heartbeat("has a future epoch")
    a.epoch = 2
    a.heartbeat("sends a topology", topology=topology)
    a.heartbeat("sends only active tasks", active_tasks=[])
    a.epoch = -3
    a.heartbeat("has epoch -3")
    a.join("joins without a timeout", rebalance_timeout_ms=-1)
    a.join("joins without tasks", active_tasks=None, standby_tasks=None, warmup_tasks=None)
    a.join("joins without a topology", topology=None)
    a.join("joins without a rack", rack_id="")
    changed = thread(transcript, "b", stateless_topology("orders", "parcels"))
    changed.join("joins with another topology")
    fixed = Topology(
        subtopologies=[subtopology("0", "orders", changelogs=[TopicInfo(name="x", partitions=3)])]
    )
    thread(transcript, "b", fixed).join("joins with a changelog of 3 partitions")
    a.epoch = 2
    a.active = tasks
    a.active[0].partitions.append(7)
    a.report_tasks("reports a task that does not exist")
    absent = thread(transcript, "c", topology)
    absent.epoch = 2
    absent.heartbeat("is not a member")
    absent.leave()


def stale_and_newer_topologies(transcript: StreamsTranscript) -> None:
    thread(transcript, "a", stateless_topology(epoch=3)).join()
    thread(transcript, "b", stateless_topology("parcels", epoch=2)).join("joins with epoch 2")
    thread(transcript, "c", stateless_topology(epoch=4)).join("joins with epoch 4")


def missing_sources(transcript: StreamsTranscript) -> None:
    a = thread(transcript, "a", stateless_topology("absent", "orders"))
    a.join()
    a.heartbeat()
    describe(transcript)
    a.leave()


def copartitioned(transcript: StreamsTranscript) -> None:
    joined = subtopology("0", "orders", "parcels", copartitioned=[CopartitionGroup(source_topics=[0, 1])])
    a = thread(transcript, "a", Topology(subtopologies=[joined]))
    a.join()
    a.heartbeat()


def a_shutdown(transcript: StreamsTranscript) -> None:
    a, b = (thread(transcript, name, stateless_topology()) for name in "ab")
    a.join()
    b.join()
    a.heartbeat("requests a shutdown", shutdown_application=True)
    b.heartbeat()
    a.leave()
    b.heartbeat()
    b.leave()
    a.join()


def lost_responses(transcript: StreamsTranscript) -> None:
    a, b = (thread(transcript, name, stateless_topology()) for name in "ab")
    a.join()
    b.join()
    a.heartbeat()
    a.report_tasks("reports the revocation")
    a.epoch = 2
    a.report_tasks("missed epoch 3")
    a.epoch = 2
    a.heartbeat("missed the response and reports no tasks")
    a.join("joins again")
    a.join("joins once more", rack_id="r2")
    b.heartbeat()


def endpoints(transcript: StreamsTranscript) -> None:
    a, b = (thread(transcript, name, stateless_topology("orders", "parcels")) for name in "ab")
    a.join(user_endpoint=Endpoint(host="host-a", port=8080))
    show_endpoints(transcript, a)
    b.join()
    a.heartbeat()
    a.report_tasks("reports the revocation")
    show_endpoints(transcript, b)
    show_endpoints(transcript, a)
    describe(transcript)


def show_endpoints(transcript: StreamsTranscript, member: StreamThread) -> None:
    response = member.heartbeat("asks for endpoints")
    member.endpoint_epoch = response.endpoint_information_epoch
    shown = None
    if response.partitions_by_user_endpoint is not None:
        shown = sorted(
            (
                each.user_endpoint.host,
                sorted((topic.topic, sorted(topic.partitions)) for topic in each.active_partitions),
            )
            for each in response.partitions_by_user_endpoint
        )
    transcript.lines.append(f"endpoints {response.endpoint_information_epoch}: {shown}")


def change_of_type(transcript: StreamsTranscript) -> None:
    """An empty group of the classic protocol becomes a streams group, and the reverse."""
    classic = ClassicClient(transcript.bench, "c", group=transcript.group)
    transcript.step("c joins")
    classic.join()
    if classic.waits:
        transcript.bench.advance(1)
        classic.joined()
    classic.leave()
    transcript.show()
    a = thread(transcript, "a", stateless_topology())
    a.join()
    other = ClassicClient(transcript.bench, "d", group=transcript.group)
    response = other.join()
    assert response is not None
    transcript.lines.append(f"d gets {response.error_code}")
    a.leave()
    again = ClassicClient(transcript.bench, "e", group=transcript.group)
    transcript.step("e joins")
    again.join()
    if again.waits:
        transcript.bench.advance(1)
        again.joined()
    transcript.show()
    transcript.lines = [
        line.replace(classic.member_id, "c").replace(again.member_id, "e") for line in transcript.lines
    ]


def describe(transcript: StreamsTranscript) -> None:
    response = transcript.bench.call(
        StreamsGroupDescribeRequest(group_ids=[transcript.group]), StreamsGroupDescribeResponse, 0
    )
    transcript.lines += [_plain(group) for group in response.groups]


def _plain(group: DescribedGroup) -> str:
    for member in group.members:
        member.client_host = ""
    group.members.sort(key=lambda member: member.member_id)
    return repr(group)


Scenario = Callable[[StreamsTranscript], None]
SCENARIOS: list[Scenario] = [
    two_members,
    errors,
    stale_and_newer_topologies,
    missing_sources,
    copartitioned,
    a_shutdown,
    lost_responses,
    endpoints,
    change_of_type,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario_is_the_same(node: ApacheKafka, topics: KafkaTopics, scenario: Scenario) -> None:
    group = scenario.__name__.replace("_", "-")
    with socket.create_connection(("127.0.0.1", node.port)) as connection:
        theirs = StreamsTranscript(group=group, bench=KafkaBench(node, topics, connection, group))
        scenario(theirs)
    ours = StreamsTranscript(group=group, bench=GroupBench(SETTINGS, Topics(PARTITIONS)))
    scenario(ours)
    assert _sorted_records(ours) == _sorted_records(theirs)
    assert len(ours.lines) >= 6


def _sorted_records(transcript: StreamsTranscript) -> list[str]:
    """Adjacent records of one type are in the order of a hash map, so they are sorted."""
    reported: list[str] = []
    for _, lines in groupby(transcript.lines, key=lambda line: line.split(" ")[0]):
        together = list(lines)
        reported += sorted(together) if together[0][:1] in "x0123456789" else together
    return reported
