"""confluent-kafka's ShareConsumer (librdkafka), alone and in a group with the native share consumer."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

import ruslo
from tests.support.brokers.node import Node
from tests.support.share.share_node import (
    new_share_group,
    new_topic,
    send,
)


@pytest.fixture(scope="module")
def bootstrap(share_node: Node) -> str:
    return share_node.bootstrap


def theirs(bootstrap: str, group: str, topic: str, **settings: str | int) -> ShareConsumer:
    config = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, **config})
    consumer.subscribe([topic])
    return consumer


def poll(consumer: ShareConsumer) -> list[Message]:
    """The next messages; fails the test without any."""
    messages = [message for message in consumer.poll(30) if message.error() is None]
    assert messages, "no message was delivered"
    return messages


def test_messages_are_accepted_by_the_next_poll(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 3), new_share_group(bootstrap)
    sent = [str(number) for number in range(200)]
    send(bootstrap, topic, sent)
    seen: Counter[str] = Counter()
    with theirs(bootstrap, group, topic) as consumer:
        while seen.total() < len(sent):
            seen.update((message.value() or b"").decode() for message in poll(consumer))
        assert set(consumer.commit_sync(30).values()) <= {None}
    assert seen == Counter(sent)


def test_a_released_message_is_delivered_again(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap), new_share_group(bootstrap)
    send(bootstrap, topic, "abc")
    with theirs(bootstrap, group, topic, share_acknowledgement_mode="explicit") as consumer:
        first, second, third = poll(consumer)
        consumer.acknowledge(first, AcknowledgeType.RELEASE)
        consumer.acknowledge(second, AcknowledgeType.REJECT)
        consumer.acknowledge(third, AcknowledgeType.ACCEPT)
        assert set(consumer.commit_sync(30).values()) == {None}
        (again,) = poll(consumer)
        assert (again.value(), again.offset()) == (b"a", 0)
        consumer.acknowledge(again)
        assert set(consumer.commit_sync(30).values()) == {None}


def test_both_clients_share_a_group(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 2), new_share_group(bootstrap)
    config = {"bootstrap.servers": bootstrap, "group.id": group}
    seen: Counter[bytes | None] = Counter()
    sent: list[str] = []
    with theirs(bootstrap, group, topic) as other, ruslo.ShareConsumer(config) as ours:
        ours.subscribe([topic])
        by_client = [0, 0]
        while 0 in by_client or seen.total() < len(sent):
            if 0 in by_client:
                fresh = [str(len(sent) + number) for number in range(20)]
                send(bootstrap, topic, fresh)
                sent += fresh
            received = [record.value for record in ours.poll(1)]
            by_client[0] += len(received)
            messages = [message.value() for message in other.poll(1) if message.error() is None]
            by_client[1] += len(messages)
            seen.update(received)
            seen.update(messages)
    assert seen == Counter(value.encode() for value in sent)


def test_a_rejected_message_is_copied_to_the_dead_letter_topic(
    bootstrap: str, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--target") == "kafka":
        pytest.skip("Apache Kafka has dead letters of share groups from 4.4 on")
    letters = f"dlq.{uuid.uuid4().hex[:8]}"
    topic = new_topic(bootstrap)
    new_topic(bootstrap, name=letters, errors_deadletterqueue_group_enable="true")
    group = new_share_group(
        bootstrap,
        errors_deadletterqueue_topic_name=letters,
        errors_deadletterqueue_copy_record_enable="true",
    )
    send(bootstrap, topic, ["poison"])
    with theirs(bootstrap, group, topic, share_acknowledgement_mode="explicit") as consumer:
        (message,) = poll(consumer)
        consumer.acknowledge(message, AcknowledgeType.REJECT)
        assert set(consumer.commit_sync(30).values()) <= {None}
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "group.id": group + "-r"}
        with ruslo.Consumer(settings) as reader:
            reader.subscribe([letters])
            letter = next(iter(reader))
    assert letter.value == b"poison"
    assert ("__dlq.errors.message", b"Offset rejected by client.") in list(letter.headers)
