"""kafka-python: a pure Python client with its own codecs."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.interop.conftest import TopicMaker


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(bootstrap: str, new_topic: TopicMaker, codec: str | None) -> None:
    topic = new_topic(partitions=2)
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5, acks="all")
    sent = [(number % 2, b"key-%d" % number, b"value-%d" % number) for number in range(300)]
    futures = [
        producer.send(topic, value=value, key=key, partition=partition, headers=[("n", value)])
        for partition, key, value in sent
    ]
    producer.flush(timeout=30)
    acked = [(future.get(timeout=30).partition, future.get(timeout=30).offset) for future in futures]
    producer.close()
    assert acked == [(number % 2, number // 2) for number in range(300)]

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=30_000)
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    read = [next(consumer) for _ in sent]
    consumer.close()

    for partition in range(2):
        received = [(r.partition, r.key, r.value) for r in read if r.partition == partition]
        assert received == sent[partition::2]
    assert all(list(record.headers) == [("n", record.value)] for record in read)


def test_idempotent_producer(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", batch_size=200)
    futures = [producer.send(topic, value=b"%d" % number) for number in range(500)]
    producer.flush(timeout=30)
    producer.close()

    assert [future.get(timeout=30).offset for future in futures] == list(range(500))


def test_offsets(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(10):
        producer.send(topic, value=b"x", partition=0, timestamp_ms=1_700_000_000_000 + number * 1000)
    producer.flush(timeout=30)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
        found = consumer.offsets_for_times({partition: 1_700_000_004_500})
        assert found[partition].offset == 5
        assert found[partition].timestamp == 1_700_000_005_000
    finally:
        consumer.close()


def test_admin(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(partitions=4)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert topic in admin.list_topics()
        (described,) = admin.describe_topics([topic])
        assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2, 3]
        assert [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]] == [1]
    finally:
        admin.close()
