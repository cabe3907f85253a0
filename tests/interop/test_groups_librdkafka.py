"""librdkafka through confluent-kafka: consumer groups of both protocols."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import Sent, new_reader, produce_all
from tests.support.groups.group_members import (
    Member,
    Protocol,
    Rebalance,
    Setting,
    committed,
    committed_positions,
    poll_for,
    poll_until,
    share_evenly,
    short_session,
    topic_partitions,
)

both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def fill(bootstrap: str, topic: str, partitions: int, per_partition: int) -> set[tuple[str, int, int]]:
    """Write some records and return the partition of each."""
    numbers = range(partitions * per_partition)
    sent = [Sent(b"%d" % number, partition=number % partitions) for number in numbers]
    delivered = produce_all(bootstrap, topic, sent)
    assert len(delivered) == len(sent)
    return {(topic, p, offset) for p in range(partitions) for offset in range(per_partition)}


# -- membership


@both_protocols
def test_members_share_the_partitions_and_every_record_is_read_once(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol
) -> None:
    topic = new_topic(partitions=4)
    all_partitions = topic_partitions(topic, range(4))
    expected = fill(bootstrap, topic, 4, 50)
    with ExitStack() as members:
        first = members.enter_context(Member(bootstrap, group, [topic], protocol))
        poll_until([first], lambda: first.assigned == all_partitions and len(first.records) == 200)
        second = members.enter_context(Member(bootstrap, group, [topic], protocol))
        poll_until([first, second], share_evenly([first, second], all_partitions))
        fill(bootstrap, topic, 4, 50)
        expected |= {(topic, p, offset) for p in range(4) for offset in range(50, 100)}
        poll_until([first, second], lambda: len(first.records) + len(second.records) == 400)
        assert {partition for _, partition, _ in second.read} == {p for _, p in second.assigned}

        first.close()
        poll_until([second], lambda: second.assigned == all_partitions)
        fill(bootstrap, topic, 4, 10)
        expected |= {(topic, p, offset) for p in range(4) for offset in range(100, 110)}
        poll_until([second], lambda: len(first.records) + len(second.records) == 440)
        poll_for([second], 0.3)

        read = first.read + second.read
        assert set(read) == expected
        assert len(read) == len(expected)
        assert first.errors == second.errors == []
    assert committed(bootstrap, group, topic, 4) == [110] * 4


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_eager_assignors_of_the_client(
    bootstrap: str, new_topic: TopicMaker, group: str, strategy: str
) -> None:
    topics = [new_topic(partitions=3), new_topic(partitions=3)]
    settings = {"partition.assignment.strategy": strategy}
    all_partitions = topic_partitions(topics[0], range(3)) | topic_partitions(topics[1], range(3))
    with (
        Member(bootstrap, group, topics, settings=settings) as first,
        Member(bootstrap, group, topics, settings=settings) as second,
    ):
        members = [first, second]
        poll_until(
            members,
            lambda: all(m.assigned for m in members) and first.assigned | second.assigned == all_partitions,
        )
        # By range the first member gets two partitions of each topic; by round robin the odd ones alternate.
        expected_sizes = [2, 4] if strategy == "range" else [3, 3]
        assert sorted(len(member.assigned) for member in members) == expected_sizes


def test_cooperative_rebalance_revokes_only_the_moved_partitions(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    topic = new_topic(partitions=4)
    all_partitions = topic_partitions(topic, range(4))
    settings = {"partition.assignment.strategy": "cooperative-sticky"}
    with ExitStack() as members:
        first = members.enter_context(Member(bootstrap, group, [topic], settings=settings))
        poll_until([first], lambda: first.assigned == all_partitions)
        second = members.enter_context(Member(bootstrap, group, [topic], settings=settings))
        poll_until([first, second], share_evenly([first, second], all_partitions))

        revoked = [change.partitions for change in first.rebalances if change.kind != "assigned"]
        assert revoked == [frozenset(second.assigned)]
        kept = set(first.assigned)
        second.close()
        poll_until([first], lambda: first.assigned == all_partitions)
        assert first.rebalances[-1] == Rebalance("assigned", frozenset(all_partitions - kept))
        assert [change.partitions for change in first.rebalances if change.kind != "assigned"] == revoked


@both_protocols
def test_a_static_member_rejoins_without_a_rebalance(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol
) -> None:
    topic = new_topic(partitions=4)
    all_partitions = topic_partitions(topic, range(4))
    with (
        Member(bootstrap, group, [topic], protocol, {"group.instance.id": "stays"}) as remaining,
        Member(bootstrap, group, [topic], protocol, {"group.instance.id": "restarts"}) as before,
    ):
        poll_until([remaining, before], share_evenly([remaining, before], all_partitions))
        poll_for([remaining, before], 0.5)
        seen, owned = list(remaining.rebalances), set(before.assigned)
        before.close()
        poll_for([remaining], 0.5)
        with Member(bootstrap, group, [topic], protocol, {"group.instance.id": "restarts"}) as after:
            poll_until([remaining, after], lambda: after.assigned == owned)
            poll_for([remaining, after], 0.5)
            assert remaining.rebalances == seen


@both_protocols
def test_a_static_member_that_does_not_rejoin_loses_its_partitions(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol, admin: AdminClient
) -> None:
    topic = new_topic(partitions=2)
    all_partitions = topic_partitions(topic, range(2))
    session = short_session(admin, group, protocol, 2500)
    with (
        Member(bootstrap, group, [topic], protocol, session | {"group.instance.id": "stays"}) as remaining,
        Member(bootstrap, group, [topic], protocol, session | {"group.instance.id": "goes"}) as leaving,
    ):
        poll_until([remaining, leaving], share_evenly([remaining, leaving], all_partitions))
        leaving.close()
        poll_for([remaining], 0.3)
        assert len(remaining.assigned) == 1
        poll_until([remaining], lambda: remaining.assigned == all_partitions)


def test_the_first_holder_of_an_instance_id_is_fenced(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    topic = new_topic(partitions=2)
    settings = {"group.instance.id": "one"}
    with Member(bootstrap, group, [topic], settings=settings) as first:
        poll_until([first], lambda: len(first.assigned) == 2)
        with Member(bootstrap, group, [topic], settings=settings) as second:
            poll_until([first, second], lambda: KafkaError._FATAL in first.error_codes)
            assert "fenced" in " ".join(str(error) for error in first.errors).lower()
            poll_until([second], lambda: len(second.assigned) == 2)
            assert second.errors == []


def test_the_second_holder_of_an_instance_id_is_rejected_by_the_consumer_protocol(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    topic = new_topic(partitions=2)
    settings = {"group.instance.id": "one"}
    with Member(bootstrap, group, [topic], "consumer", settings) as first:
        poll_until([first], lambda: len(first.assigned) == 2)
        with Member(bootstrap, group, [topic], "consumer", settings) as second:
            poll_until([first, second], lambda: KafkaError._FATAL in second.error_codes)
            assert "still used by another member" in " ".join(str(error) for error in second.errors)
            assert len(first.assigned) == 2
            assert first.errors == []


@both_protocols
def test_a_member_that_does_not_poll_leaves_and_rejoins(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol, admin: AdminClient
) -> None:
    topic = new_topic(partitions=2)
    all_partitions = topic_partitions(topic, range(2))
    slow = short_session(admin, group, protocol, 1500) | {"max.poll.interval.ms": 2000}
    with (
        Member(bootstrap, group, [topic], protocol) as polling,
        Member(bootstrap, group, [topic], protocol, slow) as stalled,
    ):
        poll_until([polling, stalled], share_evenly([polling, stalled], all_partitions))
        poll_until([polling], lambda: polling.assigned == all_partitions)
        poll_until([polling, stalled], lambda: KafkaError._MAX_POLL_EXCEEDED in stalled.error_codes)
        poll_until([polling, stalled], share_evenly([polling, stalled], all_partitions))


@both_protocols
def test_a_subscription_by_pattern(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol
) -> None:
    first, second = new_topic(partitions=2), new_topic()
    pattern = f"^{first.removesuffix('-0')}-[0-9]$"
    settings = {"topic.metadata.refresh.interval.ms": 300}
    with Member(bootstrap, group, [pattern], protocol, settings) as member:
        expected = topic_partitions(first, range(2)) | topic_partitions(second, [0])
        poll_until([member], lambda: member.assigned == expected)
        third = new_topic()
        expected |= topic_partitions(third, [0])
        poll_until([member], lambda: member.assigned == expected)
        assert member.errors == []


def test_an_invalid_pattern_is_rejected_by_the_broker(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    # A back reference could take more than linear time; librdkafka itself supports them.
    with Member(bootstrap, group, [r"^(a+)\1$"], "consumer") as member:
        poll_until([member], lambda: bool(member.errors))
        assert "regular expression is not valid" in " ".join(str(error) for error in member.errors)


# -- offsets


@both_protocols
def test_manual_commits(bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol) -> None:
    topic = new_topic()
    fill(bootstrap, topic, 1, 20)
    responses: list[tuple[KafkaError | None, list[TopicPartition]]] = []
    settings: dict[str, Setting] = {
        "enable.auto.commit": False,
        "on_commit": lambda error, partitions: responses.append((error, partitions)),
    }
    with Member(bootstrap, group, [topic], protocol, settings) as member:
        poll_until([member], lambda: len(member.records) == 20)
        assert committed(bootstrap, group, topic) == [OFFSET_INVALID]

        (stored,) = member.consumer.commit(message=member.records[4], asynchronous=False)
        assert (stored.offset, stored.error) == (5, None)
        assert committed(bootstrap, group, topic) == [5]

        responses.clear()
        member.consumer.commit(message=member.records[9], asynchronous=True)
        poll_until([member], lambda: bool(responses))
        ((error, (tp,)),) = responses
        assert (error, tp.offset) == (None, 10)

        noted = TopicPartition(topic, 0, 7, metadata="back to ä 7")
        member.consumer.commit(offsets=[noted], asynchronous=False)
        (read_back,) = committed_positions(bootstrap, group, topic)
        assert (read_back.offset, read_back.metadata) == (7, "back to ä 7")

        too_long = TopicPartition(topic, 0, 8, metadata="m" * 5000)
        with pytest.raises(KafkaException) as caught:
            member.consumer.commit(offsets=[too_long], asynchronous=False)
        assert caught.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    # Without automatic commits leaving commits nothing, and the next member continues from the last commit.
    with Member(bootstrap, group, [topic], protocol, settings) as member:
        poll_until([member], lambda: len(member.records) == 13)
        assert member.read[0] == (topic, 0, 7)


@both_protocols
def test_automatic_commits(bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol) -> None:
    topic = new_topic()
    fill(bootstrap, topic, 1, 20)
    settings = {"auto.commit.interval.ms": 100}
    with Member(bootstrap, group, [topic], protocol, settings) as member:
        poll_until([member], lambda: committed(bootstrap, group, topic) == [20])
    fill(bootstrap, topic, 1, 5)
    with Member(bootstrap, group, [topic], protocol, settings) as member:
        poll_until([member], lambda: len(member.records) == 5)
        assert member.read[0] == (topic, 0, 20)
        member.consumer.seek(TopicPartition(topic, 0, 23))
        poll_until([member], lambda: len(member.records) == 7)
        assert member.read[5:] == [(topic, 0, 23), (topic, 0, 24)]


@both_protocols
def test_start_positions_of_a_group_without_offsets(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: Protocol
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, 1, 10)
    with (
        Member(bootstrap, f"{group}-earliest", [topic], protocol) as earliest,
        Member(bootstrap, f"{group}-latest", [topic], protocol, {"auto.offset.reset": "latest"}) as latest,
        Member(bootstrap, f"{group}-error", [topic], protocol, {"auto.offset.reset": "error"}) as neither,
    ):
        members = [earliest, latest, neither]
        poll_until(members, lambda: KafkaError._AUTO_OFFSET_RESET in neither.error_codes)

        fresh = 10
        while not latest.records:  # The end offset is looked up once, so later records are read.
            fill(bootstrap, topic, 1, 1)
            fresh += 1
            poll_for(members, 0.2)
            assert fresh < 200, "no record arrived"
        assert min(offset for _, _, offset in latest.read) >= 10
        poll_until(members, lambda: len(earliest.records) == fresh)
        assert earliest.read == [(topic, 0, offset) for offset in range(fresh)]
        assert neither.records == []


def test_commits_of_a_client_that_never_joined(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic()
    reader = new_reader(bootstrap, {"group.id": group})
    try:
        reader.commit(offsets=[TopicPartition(topic, 0, 77, metadata="m")], asynchronous=False)
        with pytest.raises(KafkaException) as caught:
            reader.commit(offsets=[TopicPartition(topic, 9, 1)], asynchronous=False)
        assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    finally:
        reader.close()
    assert committed(bootstrap, group, topic) == [77]

    with Member(bootstrap, group, [topic]) as member:
        poll_until([member], lambda: bool(member.assigned))
        outsider = new_reader(bootstrap, {"group.id": group})
        try:
            with pytest.raises(KafkaException) as caught:
                outsider.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            assert caught.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
        finally:
            outsider.close()
    assert committed(bootstrap, group, topic) == [77]
