"""aiokafka: the asyncio client."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from tests.interop.conftest import TopicMaker


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(bootstrap: str, new_topic: TopicMaker, codec: str | None) -> None:
    topic = new_topic(partitions=2)
    sent = [(number % 2, b"value-%d" % number) for number in range(300)]

    async def produce() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            futures = [
                await producer.send(topic, value, partition=partition, headers=[("n", value)])
                for partition, value in sent
            ]
            return [metadata.offset for metadata in await asyncio.gather(*futures)]

    async def consume() -> list[tuple[int, bytes]]:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
            partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            read: list[tuple[int, bytes]] = []
            async with asyncio.timeout(30):
                while len(read) < len(sent):
                    record = await consumer.getone()
                    assert list(record.headers) == [("n", record.value)]
                    read.append((record.partition, record.value))
            return read

    assert asyncio.run(produce()) == [number // 2 for number in range(300)]
    read = asyncio.run(consume())
    for partition in range(2):
        assert [item for item in read if item[0] == partition] == sent[partition::2]


def test_idempotent_producer(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()

    async def produce() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
            futures = [await producer.send(topic, b"%d" % number) for number in range(500)]
            return [metadata.offset for metadata in await asyncio.gather(*futures)]

    assert asyncio.run(produce()) == list(range(500))


def test_offsets_by_time(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)

    async def list_offsets() -> tuple[int, int, int]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"x", timestamp_ms=1_700_000_000_000 + number * 1000)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
            consumer.assign([partition])
            first = await consumer.beginning_offsets([partition])
            last = await consumer.end_offsets([partition])
            found = await consumer.offsets_for_times({partition: 1_700_000_004_500})
            return first[partition], last[partition], found[partition].offset

    assert asyncio.run(list_offsets()) == (0, 10, 5)


def test_admin(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(partitions=3)

    async def describe() -> tuple[list[str], int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            described = await admin.describe_topics([topic])
            return await admin.list_topics(), len(described[0]["partitions"])
        finally:
            await admin.close()

    topics, partitions = asyncio.run(describe())
    assert topic in topics
    assert partitions == 3
