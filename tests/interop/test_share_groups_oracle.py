"""Share groups in the same scenarios with Apache Kafka: every record it writes and every response is equal.

Which partitions a member gets depends on the order of Kafka's hash maps, so only their number is compared.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ruslo.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ruslo.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from ruslo.protocol.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
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
from tests.support.groups.offset_calls import commit
from tests.support.groups.share_requests import alter_request, delete_request
from tests.support.groups.share_transcript import ShareConsumer, ShareTranscript
from tests.support.share.share_client import SMALL
from tests.support.tools.programs import require_tool

SHARE_PROPERTIES = {**PROPERTIES, **SMALL, "group.share.assignment.interval.ms": "0"}
SHARE_SETTINGS = replace(SETTINGS, share_assignment_interval_ms=0)
ASSIGNED = re.compile(r"(\w+):([\d,]+)")

Scenario = Callable[[ShareTranscript], None]


class KafkaTranscript(ShareTranscript):
    """The share coordinator of Apache Kafka responds on its own."""

    def answer(self, code: ErrorCode = ErrorCode.NONE, **failed: list[int]) -> None:
        self.step("the share coordinator responds")
        while self._is_waiting():
            self.bench.advance(20)
        self.show()

    def _is_waiting(self) -> bool:
        states = [
            record.value
            for record in self.bench.records()
            if isinstance(record.value, ShareGroupStatePartitionMetadataValue)
        ]
        return bool(states) and bool(states[-1].initializing_topics)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    require_tool("java")
    directory: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(directory, properties=SHARE_PROPERTIES) as node:
        yield node


@pytest.fixture(scope="module")
def topics(node: ApacheKafka) -> KafkaTopics:
    return prepared(node)


# -- scenarios -----------------------------------------------------------------------------------------------


def two_members(transcript: ShareTranscript) -> None:
    a, b = ShareConsumer(transcript, "a", "orders", rack_id="north"), ShareConsumer(transcript, "b", "orders")
    a.join()
    transcript.answer()
    a.heartbeat()
    a.heartbeat()
    b.join()
    a.heartbeat()
    b.heartbeat()
    b.leave()
    a.heartbeat()
    a.join()
    a.leave()
    a.leave()


def more_members_than_partitions(transcript: ShareTranscript) -> None:
    members = [ShareConsumer(transcript, name, "parcels") for name in "abcde"]
    for member in members:
        member.join()
        transcript.answer()
    for member in members:
        member.heartbeat()
    members[2].leave()
    for member in (members[0], members[1], members[3], members[4]):
        member.heartbeat()


def lost_responses(transcript: ShareTranscript) -> None:
    a, b = ShareConsumer(transcript, "a", "orders"), ShareConsumer(transcript, "b", "orders")
    a.join()
    transcript.answer()
    a.heartbeat()
    b.join()
    a.heartbeat()
    a.epoch -= 1
    a.heartbeat("missed a response")
    a.epoch -= 3
    a.heartbeat("has an old epoch")
    a.epoch = 99
    a.heartbeat("has a future epoch")
    a.join()
    a.member_id = "c"
    a.heartbeat("has the wrong id")
    a.leave()


def subscriptions(transcript: ShareTranscript) -> None:
    a, b = ShareConsumer(transcript, "a", "orders"), ShareConsumer(transcript, "b", "absent")
    a.join()
    transcript.answer()
    a.heartbeat()
    a.subscribe("parcels")
    transcript.answer()
    a.heartbeat()
    b.join()
    b.heartbeat()
    b.subscribe("orders", "absent")
    a.heartbeat()
    b.heartbeat()


def invalid_requests(transcript: ShareTranscript) -> None:
    group = transcript.group
    for request in (
        ShareGroupHeartbeatRequest(group_id=group, member_id="", subscribed_topic_names=["orders"]),
        ShareGroupHeartbeatRequest(group_id=group, member_id="m" * 37, subscribed_topic_names=["orders"]),
        ShareGroupHeartbeatRequest(group_id="", member_id="a", subscribed_topic_names=["orders"]),
        ShareGroupHeartbeatRequest(
            group_id=group, member_id="a", rack_id="", subscribed_topic_names=["orders"]
        ),
        ShareGroupHeartbeatRequest(group_id=group, member_id="a"),
        ShareGroupHeartbeatRequest(group_id=group, member_id="a", subscribed_topic_names=[]),
        ShareGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=-2),
        ShareGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=-1),
        ShareGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=7),
    ):
        response = transcript.bench.call(request, ShareGroupHeartbeatResponse)
        transcript.lines.append(ErrorCode(response.error_code).name)
    transcript.show()


def altered_offsets(transcript: ShareTranscript) -> None:
    _alter(transcript, {"orders": {0: 7, 9: 1}, "absent": {0: 1}})
    _alter(transcript, {"absent": {0: 1}})
    a = ShareConsumer(transcript, "a", "orders")
    a.join()
    transcript.answer()
    a.heartbeat()
    _alter(transcript, {"orders": {0: 7}})
    a.leave()
    _alter(transcript, {"orders": {0: 8}, "parcels": {1: 2}})


def deleted_offsets(transcript: ShareTranscript) -> None:
    _delete(transcript, "orders")
    a = ShareConsumer(transcript, "a", "orders", "parcels")
    a.join()
    transcript.answer()
    _delete(transcript, "orders")
    a.leave()
    _delete(transcript, "orders", "absent")
    a.join()
    transcript.answer()
    a.heartbeat()


def other_types(transcript: ShareTranscript) -> None:
    a = ShareConsumer(transcript, "a", "orders")
    a.join()
    transcript.answer()
    _errors_of_other_requests(transcript)
    a.leave()
    _errors_of_other_requests(transcript)
    transcript.group += "-consumer"
    consumer = Consumer(Transcript(transcript.bench, transcript.group), "c", "orders")
    consumer.join()
    _skip_records(transcript)
    a.join()
    _alter(transcript, {"orders": {0: 7}})
    _delete(transcript, "orders")
    consumer.leave()
    _skip_records(transcript)
    a.join()


def deleted_group(transcript: ShareTranscript) -> None:
    a = ShareConsumer(transcript, "a", "orders")
    a.join()
    transcript.answer()
    _delete_groups(transcript)
    a.leave()
    _delete_groups(transcript)
    _delete_groups(transcript)
    a.join()


# -- steps ---------------------------------------------------------------------------------------------------


def _skip_records(transcript: ShareTranscript) -> None:
    """Those of another group are not read from Kafka's log."""
    transcript._shown = len(transcript.bench.log)


def _alter(transcript: ShareTranscript, topics: dict[str, dict[int, int]]) -> None:
    transcript.step("offsets are altered")
    token = transcript.bench.send(alter_request(topics, transcript.group))
    transcript.answer()
    response = transcript.bench.response(token, AlterShareGroupOffsetsResponse)
    transcript.lines.append(ErrorCode(response.error_code).name)
    for topic in sorted(response.responses, key=lambda each: each.topic_name):
        codes = {each.partition_index: ErrorCode(each.error_code).name for each in topic.partitions}
        transcript.lines.append(f"{topic.topic_name} {codes} {topic.topic_id != bytes(16)}")


def _delete(transcript: ShareTranscript, *topics: str) -> None:
    transcript.step("offsets are deleted")
    token = transcript.bench.send(delete_request(*topics, group=transcript.group))
    transcript.answer()
    response = transcript.bench.response(token, DeleteShareGroupOffsetsResponse)
    transcript.lines.append(ErrorCode(response.error_code).name)
    for topic in sorted(response.responses, key=lambda each: each.topic_name):
        code = ErrorCode(topic.error_code).name
        transcript.lines.append(f"{topic.topic_name} {code} {topic.topic_id != bytes(16)}")


def _delete_groups(transcript: ShareTranscript) -> None:
    transcript.step("the group is deleted")
    token = transcript.bench.send(DeleteGroupsRequest(groups_names=[transcript.group]), 2)
    transcript.answer()
    response = transcript.bench.response(token, DeleteGroupsResponse)
    transcript.lines += [ErrorCode(each.error_code).name for each in response.results]


def _errors_of_other_requests(transcript: ShareTranscript) -> None:
    bench, group = transcript.bench, transcript.group
    (classic,) = bench.call(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse).groups
    (consumer,) = bench.call(
        ConsumerGroupDescribeRequest(group_ids=[group]), ConsumerGroupDescribeResponse
    ).groups
    (share,) = bench.call(ShareGroupDescribeRequest(group_ids=[group]), ShareGroupDescribeResponse).groups
    listed = bench.call(ListGroupsRequest(), ListGroupsResponse).groups
    client = ClassicClient(bench, "c", group=group)
    joined = client.join()
    assert joined is not None
    transcript.lines += [
        ErrorCode(classic.error_code).name,
        ErrorCode(consumer.error_code).name,
        f"{share.group_state} {share.group_epoch} {share.assignment_epoch} {share.assignor_name}",
        str([(each.client_id, each.member_epoch, each.subscribed_topic_names) for each in share.members]),
        str([(x.group_type, x.group_state, x.protocol_type) for x in listed if x.group_id == group]),
        f"{ErrorCode(joined.error_code).name} {joined.member_id!r}",
        str(commit(bench, 5, group=group)),
    ]
    Consumer(Transcript(bench, group), "c", "orders").join()
    transcript.show()


# -- the comparison ------------------------------------------------------------------------------------------


def _comparable(transcript: ShareTranscript) -> tuple[list[str], list[str]]:
    """Without queries, with numbers of partitions, and adjacent records of one type in order.

    The records of states are apart: Kafka may write a result before the response to the heartbeat.
    """
    reported: list[str] = []
    states = [line for line in transcript.lines if line.startswith("15 ")]
    lines = [line for line in transcript.lines if not line.startswith(("initialize ", "delete ", "15 "))]
    for _, group in groupby(lines, key=lambda line: line.split(" ")[0]):
        together = [
            ASSIGNED.sub(lambda found: f"{found[1]}:{found[2].count(',') + 1}", line)
            if line.startswith(("13 ", "14 ")) or " has " in line
            else line
            for line in group
        ]
        reported += sorted(together) if together[0][0] in "x0123456789" else together
    return reported, states


@pytest.mark.parametrize(
    "scenario",
    [
        two_members,
        more_members_than_partitions,
        lost_responses,
        subscriptions,
        invalid_requests,
        altered_offsets,
        deleted_offsets,
        other_types,
        deleted_group,
    ],
)
def test_scenario_is_the_same(node: ApacheKafka, topics: KafkaTopics, scenario: Scenario) -> None:
    group = scenario.__name__
    with socket.create_connection(("127.0.0.1", node.port)) as connection:
        theirs = KafkaTranscript(KafkaBench(node, topics, connection, group), group)
        scenario(theirs)
    ours = ShareTranscript(GroupBench(SHARE_SETTINGS, Topics(PARTITIONS)), group)
    scenario(ours)
    assert _comparable(ours) == _comparable(theirs)


def _in_every_state(bench: GroupBench) -> list[str]:
    """Groups with and without members, while states are initialized and deleted."""
    transcript = ShareTranscript(bench, "serving")
    members = [ShareConsumer(transcript, name, "orders", "parcels", rack_id="r") for name in "abc"]
    for member in members:
        member.join()
        transcript.answer()
    for member in members:
        member.heartbeat()
    ShareConsumer(ShareTranscript(bench, "initializing"), "d", "orders").join()
    transcript = ShareTranscript(bench, "emptied")
    gone = ShareConsumer(transcript, "e", "parcels")
    gone.join()
    bench.queries.clear()
    gone.leave()
    bench.send(alter_request({"orders": {1: 5}}, "altered"))
    bench.queries.clear()
    return ["serving", "initializing", "emptied", "altered"]


def _described(bench: GroupBench, groups: list[str]) -> list[DescribedGroup]:
    response = bench.call(ShareGroupDescribeRequest(group_ids=groups), ShareGroupDescribeResponse)
    for group in response.groups:
        group.members.sort(key=lambda member: member.member_id)
        for member in group.members:
            member.subscribed_topic_names.sort()
            member.assignment.topic_partitions.sort(key=lambda topic: topic.topic_name)
            for topic in member.assignment.topic_partitions:
                topic.partitions.sort()
    return response.groups


def test_kafka_loads_the_records_that_we_write(tmp_path: Path) -> None:
    require_tool("java")
    check_that_kafka_loads(tmp_path, SHARE_PROPERTIES, SHARE_SETTINGS, _in_every_state, _described)
