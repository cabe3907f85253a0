"""ConsumerGroupDescribe: descriptions of consumer groups."""

from __future__ import annotations

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from tests.support.groups.classic_client import ClassicClient
from tests.support.groups.consumer_transcript import Consumer, Transcript
from tests.support.groups.group_bench import Topics, topic_id


def describe(transcript: Transcript, *group_ids: str) -> list[DescribedGroup]:
    request = ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    return transcript.bench.call(request, ConsumerGroupDescribeResponse).groups


def orders(*partitions: int) -> Assignment:
    topic = TopicPartitions(topic_id=topic_id(1_000), topic_name="orders", partitions=list(partitions))
    return Assignment(topic_partitions=[topic])


def test_group_during_its_reconciliation() -> None:
    transcript = Transcript()
    a = Consumer(transcript, "a", "orders", instance_id="i", rack_id="r", client_id="app-1")
    a.join()
    assert describe(transcript, "g")[0].group_state == "Stable"
    b = Consumer(transcript, "b", "orders")
    b.join()
    assert describe(transcript, "g")[0].group_state == "Assigning"
    transcript.bench.advance(1_000)
    b.heartbeat()
    a.heartbeat()
    (group,) = describe(transcript, "g")
    assert group == DescribedGroup(
        group_id="g",
        group_state="Reconciling",
        group_epoch=3,
        assignment_epoch=3,
        assignor_name="uniform",
        members=[
            Member(
                member_id="a",
                instance_id="i",
                rack_id="r",
                member_epoch=2,
                client_id="app-1",
                client_host="/10.0.0.5",
                subscribed_topic_names=["orders"],
                subscribed_topic_regex="",
                assignment=orders(0, 1, 2, 3),
                target_assignment=orders(0, 1),
                member_type=1,
            ),
            Member(
                member_id="b",
                member_epoch=3,
                client_id="app",
                client_host="/10.0.0.3",
                subscribed_topic_names=["orders"],
                subscribed_topic_regex="",
                assignment=Assignment(),
                target_assignment=orders(2, 3),
                member_type=1,
            ),
        ],
    )


def test_groups_without_a_description() -> None:
    transcript = Transcript()
    ClassicClient(transcript.bench, "c", group="classic").join()
    a = Consumer(transcript, "a", "orders")
    a.join()
    a.leave()
    empty, classic, absent, nameless = describe(transcript, "g", "classic", "absent", "")
    assert (empty.group_state, empty.members, empty.group_epoch) == ("Empty", [], 3)
    assert classic.error_code == absent.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert classic.error_message == "Group classic is not a consumer group."
    assert absent.error_message == "Group absent not found."
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID


def test_deleted_topics_are_not_shown() -> None:
    transcript = Transcript()
    Consumer(transcript, "a", "orders", "parcels").join()
    transcript.change_topics("parcels is deleted", Topics({"orders": 4}, version=1), deleted=["parcels"])
    (group,) = describe(transcript, "g")
    assert group.members[0].assignment == group.members[0].target_assignment == orders(0, 1, 2, 3)
