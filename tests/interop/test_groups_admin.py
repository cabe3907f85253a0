"""librdkafka's admin client: consumer groups and their offsets."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import Sent, produce_all
from tests.support.groups.group_members import (
    Member,
    Protocol,
    committed,
    poll_until,
    share_evenly,
    topic_partitions,
)

both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])
TYPES = {"classic": ConsumerGroupType.CLASSIC, "consumer": ConsumerGroupType.CONSUMER}


def describe(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    description = admin.describe_consumer_groups([group], request_timeout=30)[group].result()
    assert isinstance(description, ConsumerGroupDescription)
    return description


def listed(
    admin: AdminClient,
    states: set[ConsumerGroupState] | None = None,
    types: set[ConsumerGroupType] | None = None,
) -> dict[str, tuple[ConsumerGroupState, ConsumerGroupType]]:
    result = admin.list_consumer_groups(
        request_timeout=30, states=states or set(), types=types or set()
    ).result()
    assert result.errors == []
    return {listing.group_id: (listing.state, listing.type) for listing in result.valid}


def offsets_of(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    requested = ConsumerGroupTopicPartitions(group)
    response = admin.list_consumer_group_offsets([requested], request_timeout=30)[group].result()
    return {tp.partition: tp.offset for tp in response.topic_partitions if tp.topic == topic}


def error_code(error: BaseException) -> int:
    code = error.args[0].code()
    assert isinstance(code, int)
    return code


@both_protocols
def test_groups_are_listed_described_and_deleted(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol, admin: AdminClient
) -> None:
    topic = new_topic(partitions=3)
    all_partitions = topic_partitions(topic, range(3))
    with (
        Member(bootstrap, group, [topic], protocol, {"client.id": "one", "group.instance.id": "i1"}) as one,
        Member(bootstrap, group, [topic], protocol, {"client.id": "two"}) as two,
    ):
        stable = share_evenly([one, two], all_partitions)
        poll_until([one, two], lambda: stable() and describe(admin, group).state == ConsumerGroupState.STABLE)
        described = describe(admin, group)
        assert described.type == TYPES[protocol]
        assert described.partition_assignor == ("range" if protocol == "classic" else "uniform")
        assert not described.is_simple_consumer_group
        assert described.coordinator is not None
        assert f"{described.coordinator.host}:{described.coordinator.port}" == bootstrap
        by_client = {member.client_id: member for member in described.members}
        assert set(by_client) == {"one", "two"}
        for name, member in [("one", one), ("two", two)]:
            seen = by_client[name]
            assert seen.member_id == member.consumer.memberid()
            assert "127.0.0.1" in seen.host
            assert {(p.topic, p.partition) for p in seen.assignment.topic_partitions} == member.assigned
        assert (by_client["one"].group_instance_id, by_client["two"].group_instance_id) == ("i1", None)

        assert listed(admin)[group] == (ConsumerGroupState.STABLE, TYPES[protocol])
        assert group in listed(admin, states={ConsumerGroupState.STABLE}, types={TYPES[protocol]})
        assert group not in listed(admin, states={ConsumerGroupState.EMPTY})
        other = ConsumerGroupType.CONSUMER if protocol == "classic" else ConsumerGroupType.CLASSIC
        assert group not in listed(admin, types={other})

        with pytest.raises(KafkaException) as caught:
            admin.delete_consumer_groups([group], request_timeout=30)[group].result()
        assert error_code(caught.value) == KafkaError.NON_EMPTY_GROUP
        two.close()
        poll_until([one], lambda: one.assigned == all_partitions)


@both_protocols
def test_an_empty_group_can_be_deleted(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol, admin: AdminClient
) -> None:
    topic = new_topic()
    produce_all(bootstrap, topic, [Sent(b"x")] * 5)
    with Member(bootstrap, group, [topic], protocol) as member:
        poll_until([member], lambda: len(member.records) == 5)
    described = describe(admin, group)
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])
    assert listed(admin, states={ConsumerGroupState.EMPTY})[group][0] == ConsumerGroupState.EMPTY
    assert offsets_of(admin, group, topic) == {0: 5}

    assert admin.delete_consumer_groups([group], request_timeout=30)[group].result() is None
    assert group not in listed(admin)
    assert offsets_of(admin, group, topic) == {}
    with pytest.raises(KafkaException) as caught:
        admin.delete_consumer_groups([group], request_timeout=30)[group].result()
    assert error_code(caught.value) == KafkaError.GROUP_ID_NOT_FOUND
    with Member(bootstrap, group, [topic], protocol) as member:  # a new group of this name
        poll_until([member], lambda: len(member.records) == 5)


@both_protocols
def test_offsets_of_an_empty_group_are_altered(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol, admin: AdminClient
) -> None:
    topic = new_topic(partitions=2)
    produce_all(bootstrap, topic, [Sent(b"x", partition=number % 2) for number in range(20)])
    assert committed(bootstrap, group, topic, 2) == [OFFSET_INVALID] * 2
    expected = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 8)])

    altered = admin.alter_consumer_group_offsets([expected], request_timeout=30)[group].result()

    assert [tp.error for tp in altered.topic_partitions] == [None, None]
    assert offsets_of(admin, group, topic) == {0: 3, 1: 8}
    one = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1)])
    response = admin.list_consumer_group_offsets([one], request_timeout=30)[group].result()
    assert [(tp.partition, tp.offset) for tp in response.topic_partitions] == [(1, 8)]
    with Member(bootstrap, group, [topic], protocol) as member:
        poll_until([member], lambda: len(member.records) == 9)
        assert set(member.read) == {(topic, 0, o) for o in range(3, 10)} | {(topic, 1, o) for o in (8, 9)}
        rejected = admin.alter_consumer_group_offsets([expected], request_timeout=30)[group].result()
        codes = {tp.error.code() for tp in rejected.topic_partitions if tp.error is not None}
        assert codes == {KafkaError.UNKNOWN_MEMBER_ID}
