"""One transaction of a million records on a thousand partitions: consumers see all of it or nothing."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import new_reader
from tests.support.txns.transactional_clients import CALL_S, new_transactional

PARTITIONS = 1_000
RECORDS = 1_000_000
READ_WITHIN_S = 120


def write(producer: Producer, topic: str, records: int) -> None:
    producer.begin_transaction()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(CALL_S) == 0


def read(consumer: Consumer, count: int) -> list[int]:
    numbers: list[int] = []
    deadline = time.monotonic() + READ_WITHIN_S
    while len(numbers) < count:
        assert time.monotonic() < deadline, f"only {len(numbers)} of {count} records came"
        for message in consumer.consume(20_000, 0.2):
            value = message.value()
            assert message.error() is None
            assert value is not None
            numbers.append(int(value))
    return numbers


def test_a_million_records_on_a_thousand_partitions(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    topic = new_topic(PARTITIONS)
    producer = new_transactional(bootstrap, group, {"linger.ms": 20, "queue.buffering.max.messages": 500_000})
    reader = new_reader(bootstrap, {"isolation.level": "read_committed", "log_level": 0})
    try:
        reader.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        write(producer, topic, PARTITIONS)
        producer.abort_transaction(CALL_S)
        write(producer, topic, RECORDS)
        assert reader.consume(1, 0.5) == [], "it is not committed yet"
        producer.commit_transaction(CALL_S)
        numbers = read(reader, RECORDS)
        assert reader.consume(1, 0.5) == []
    finally:
        reader.close()
    assert sorted(numbers) == list(range(RECORDS))
