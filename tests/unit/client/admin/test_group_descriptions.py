from __future__ import annotations

import struct

import pytest

from ruslo.client.admin.group_descriptions import (
    GroupMember,
    decode_assignment,
    decode_subscription,
    from_classic,
    from_consumer,
)
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages import consumer_group_describe_response as consumer
from ruslo.protocol.messages import consumer_protocol_assignment as assignment
from ruslo.protocol.messages import describe_groups_response as classic
from ruslo.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

T0, T2, U1 = TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)


def assignment_bytes(version: int = 0) -> bytes:
    message = assignment.ConsumerProtocolAssignment(
        assigned_partitions=[
            assignment.TopicPartition(topic="u", partitions=[1]),
            assignment.TopicPartition(topic="t", partitions=[2, 0]),
        ]
    )
    return struct.pack(">h", version) + message.to_bytes(min(version, 3))


def subscription_bytes() -> bytes:
    return struct.pack(">h", 3) + ConsumerProtocolSubscription(topics=["u", "t"]).to_bytes(3)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_assignments_of_every_version(version: int) -> None:
    assert decode_assignment(assignment_bytes(version)) == (T0, T2, U1)


def test_a_newer_version_is_read_up_to_the_known_fields() -> None:
    assert decode_assignment(assignment_bytes(9) + b"fields of the future") == (T0, T2, U1)


@pytest.mark.parametrize("data", [b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\0\x7f\xff\xff\xff", b"whatever"])
def test_bytes_of_other_protocols_are_not_decoded(data: bytes) -> None:
    assert decode_assignment(data) is None
    assert decode_subscription(data) == ()


def test_an_empty_assignment() -> None:
    assert decode_assignment(b"") == ()
    assert decode_subscription(b"") == ()


def test_a_classic_group() -> None:
    described = from_classic(
        classic.DescribedGroup(
            group_id="g",
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="range",
            members=[
                classic.DescribedGroupMember(
                    member_id="m",
                    group_instance_id="i",
                    client_id="c",
                    client_host="/10.0.0.7",
                    member_metadata=subscription_bytes(),
                    member_assignment=assignment_bytes(),
                )
            ],
        ),
        4,
    )
    member = GroupMember("m", "i", "c", "10.0.0.7", "classic", (T0, T2, U1), ("t", "u"))
    assert described.members == (member,)
    assert (described.type, described.assignor, described.coordinator_id) == ("classic", "range", 4)
    assert described.is_active
    assert described.owners() == {T0: member, T2: member, U1: member}


def test_a_group_of_another_protocol_type() -> None:
    described = from_classic(
        classic.DescribedGroup(
            group_id="g",
            group_state="Stable",
            protocol_type="connect",
            members=[classic.DescribedGroupMember(member_id="m", member_assignment=assignment_bytes())],
        ),
        1,
    )
    assert described.members[0].assignment is None
    assert described.owners() == {}


def test_a_consumer_group_with_members_of_both_protocols() -> None:
    def partitions(*numbers: int) -> consumer.Assignment:
        topics = [consumer.TopicPartitions(topic_name="t", partitions=list(numbers))] if numbers else []
        return consumer.Assignment(topic_partitions=topics)

    described = from_consumer(
        consumer.DescribedGroup(
            group_id="g",
            group_state="Reconciling",
            group_epoch=7,
            assignment_epoch=6,
            assignor_name="uniform",
            members=[
                consumer.Member(
                    member_id="new",
                    member_epoch=6,
                    rack_id="r",
                    client_host="/::1",
                    subscribed_topic_regex="t.*",
                    assignment=partitions(0),
                    target_assignment=partitions(2, 0),
                    member_type=1,
                ),
                consumer.Member(member_id="old", subscribed_topic_regex="", member_type=0),
            ],
        ),
        1,
    )
    new, old = described.members
    assert (described.group_epoch, described.assignment_epoch, described.assignor) == (7, 6, "uniform")
    assert (new.protocol, new.epoch, new.rack_id, new.host) == ("consumer", 6, "r", "::1")
    assert (new.assignment, new.target, new.subscribed_regex) == ((T0,), (T0, T2), "t.*")
    assert (old.protocol, old.subscribed_regex, old.assignment) == ("classic", None, ())
    assert described.owners() == {T0: new}
