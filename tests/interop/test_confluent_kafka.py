"""librdkafka through confluent-kafka: producing and consuming."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import (
    Headers,
    Sent,
    by_partition,
    new_reader,
    produce_all,
    read_records,
    receive,
)

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
HEADERS: list[Headers | None] = [None, [("trace", b"1"), ("trace", b"2")], [("empty", b""), ("null", None)]]


def as_sent(message: Message) -> Sent:
    """The consumed records, in the form in which they were produced."""
    partition, headers = message.partition(), message.headers()
    assert partition is not None
    assert not isinstance(headers, dict)
    return Sent(message.value(), message.key(), partition, headers or None, message.timestamp()[1])


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_consumed_as_they_were_produced(
    bootstrap: str, new_topic: TopicMaker, codec: str
) -> None:
    topic = new_topic(partitions=3)
    source = random.Random(codec)
    start_ms = int(time.time() * 1000) - 100_000
    sent = [
        Sent(
            value=source.choice([b"", None, b"text " * 40, source.randbytes(300)]),
            key=source.choice([None, b"", f"key-{number}".encode()]),
            partition=number % 3,
            headers=source.choice(HEADERS),
            timestamp_ms=start_ms + number,
        )
        for number in range(600)
    ]

    produce_all(bootstrap, topic, sent, {"compression.type": codec, "batch.num.messages": 50})
    read = by_partition(read_records(bootstrap, topic, 3, len(sent)))

    for partition in range(3):
        assert [as_sent(message) for message in read[partition]] == sent[partition::3]
        assert [message.offset() for message in read[partition]] == list(range(200))
        assert {message.timestamp()[0] for message in read[partition]} == {TIMESTAMP_CREATE_TIME}


def test_idempotent_producer_with_five_requests_in_flight(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(partitions=2)
    sent = [Sent(str(number).encode(), partition=number % 2) for number in range(4000)]
    settings = {
        "enable.idempotence": True,
        "max.in.flight.requests.per.connection": 5,
        "batch.num.messages": 20,
        "linger.ms": 0,
    }

    produce_all(bootstrap, topic, sent, settings)
    read = by_partition(read_records(bootstrap, topic, 2, len(sent)))

    for partition in range(2):
        assert [message.value() for message in read[partition]] == [
            record.value for record in sent[partition::2]
        ]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting(bootstrap: str, new_topic: TopicMaker, acks: str) -> None:
    topic = new_topic()

    produce_all(bootstrap, topic, [Sent(b"%d" % number) for number in range(100)], {"acks": acks})

    assert [m.value() for m in read_records(bootstrap, topic, 1, 100)] == [
        b"%d" % number for number in range(100)
    ]


def test_a_waiting_consumer_gets_a_new_record(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    consumer = new_reader(bootstrap, {"fetch.wait.max.ms": 2000, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    try:
        end = consumer.poll(20)
        assert end is not None
        reached_end = end.error()
        assert reached_end is not None
        assert reached_end.code() == KafkaError._PARTITION_EOF  # the next fetch waits in the broker

        produce_all(bootstrap, topic, [Sent(b"late")])

        assert [message.value() for message in receive(consumer, 1, timeout_s=60)] == [b"late"]
    finally:
        consumer.close()


def test_reading_committed_records_only(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    produce_all(bootstrap, topic, [Sent(b"%d" % number) for number in range(50)])

    read = read_records(bootstrap, topic, 1, 50, settings={"isolation.level": "read_committed"})

    assert [message.value() for message in read] == [b"%d" % number for number in range(50)]


def test_log_append_time(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    produce_all(bootstrap, topic, [Sent(b"x", timestamp_ms=1_000_000)])

    kind, timestamp_ms = read_records(bootstrap, topic, 1, 1)[0].timestamp()

    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before_ms <= timestamp_ms <= int(time.time() * 1000)


def test_the_topic_can_choose_the_codec(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(config={"compression.type": "zstd"})
    sent = [Sent(b"compress me " * 20, key=b"%d" % number) for number in range(200)]

    produce_all(bootstrap, topic, sent, {"compression.type": "gzip"})

    read = read_records(bootstrap, topic, 1, 200)
    assert [(message.key(), message.value()) for message in read] == [(r.key, r.value) for r in sent]


def test_large_records(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(config={"max.message.bytes": "4000000"})
    sent = [Sent(bytes([number]) * 3_000_000) for number in range(4)]

    produce_all(bootstrap, topic, sent, {"message.max.bytes": 4_000_000})

    read = read_records(bootstrap, topic, 1, 4, settings={"fetch.message.max.bytes": 100_000})
    assert [message.value() for message in read] == [record.value for record in sent]


def delivery_error(bootstrap: str, topic: str, value: bytes, settings: dict[str, str | int | bool]) -> int:
    """The error code with which one record is rejected."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 10_000, **settings})
    producer.produce(topic, value, on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(30) == 0
    assert errors[0] is not None, "the record was accepted"
    return errors[0].code()


def test_a_record_above_the_limit_is_rejected(bootstrap: str, new_topic: TopicMaker) -> None:
    code = delivery_error(bootstrap, new_topic(), bytes(2_000_000), {"message.max.bytes": 4_000_000})

    assert code == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_record_from_the_far_future_is_rejected(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(config={"message.timestamp.after.max.ms": "1000"})
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    tomorrow_ms = int(time.time() * 1000) + 86_400_000
    producer.produce(
        topic, b"x", timestamp=tomorrow_ms, on_delivery=lambda error, message: errors.append(error)
    )
    assert producer.flush(30) == 0

    assert errors[0] is not None
    assert errors[0].code() == KafkaError.INVALID_TIMESTAMP


def test_a_compacted_topic_requires_keys(bootstrap: str, new_topic: TopicMaker) -> None:
    code = delivery_error(bootstrap, new_topic(config={"cleanup.policy": "compact"}), b"x", {})

    assert code == KafkaError.INVALID_RECORD


def test_min_insync_replicas_counts_existing_replicas(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(config={"min.insync.replicas": "2"})

    assert len(produce_all(bootstrap, topic, [Sent(b"x")], {"acks": "all"})) == 1


def test_a_topic_is_created_by_its_first_producer(bootstrap: str) -> None:
    topic = "made-by-the-first-producer"

    produce_all(bootstrap, topic, [Sent(b"first")])

    assert [message.value() for message in read_records(bootstrap, topic, 1, 1)] == [b"first"]


def test_an_offset_out_of_range(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    consumer = new_reader(bootstrap, {"auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 1000)])
    try:
        message = consumer.poll(30)
    finally:
        consumer.close()

    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_a_consumer_is_reset_to_the_earliest_offset(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    produce_all(bootstrap, topic, [Sent(b"%d" % number) for number in range(10)])

    settings = {"auto.offset.reset": "earliest"}
    read = read_records(bootstrap, topic, 1, 10, offset=5000, settings=settings)

    assert [message.offset() for message in read] == list(range(10))


def test_offsets_by_time(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    start_ms = int(time.time() * 1000) - 1_000_000
    sent = [Sent(b"x" * 100, timestamp_ms=start_ms + 1000 * number) for number in range(500)]
    produce_all(bootstrap, topic, sent, {"batch.num.messages": 7})
    consumer = new_reader(bootstrap)
    try:
        for wanted_ms, offset in [(0, 0), (1000, 1), (1500, 2), (123_000, 123), (498_001, 499)]:
            requested = TopicPartition(topic, 0, start_ms + wanted_ms)
            assert consumer.offsets_for_times([requested], timeout=60)[0].offset == offset
        after_all = TopicPartition(topic, 0, start_ms + 499_001)
        assert consumer.offsets_for_times([after_all], timeout=60)[0].offset == OFFSET_END
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 500)
    finally:
        consumer.close()
