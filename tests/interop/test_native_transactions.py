"""The native client's transactions, in both versions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from ruslo.client.admin.group_offsets import GroupOffsets
from ruslo.client.errors import TransactionLost
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.client.wire.idempotent import IdempotentSender
from ruslo.client.wire.transactional import TransactionalProducer, new_producer_id
from ruslo.model.topics import TopicPartition
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from tests.interop.conftest import TopicMaker


@pytest.fixture(params=["version 2", "version 1"], autouse=True)
def transaction_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Current brokers serve both versions; the client uses version 1 with brokers that have not upgraded."""

    async def supports_v2(self: TransactionalProducer, node: int) -> bool:
        return False

    if request.param == "version 1":
        monkeypatch.setattr(TransactionalProducer, "_speaks_v2", supports_v2)


def batch(*values: bytes) -> bytearray:
    return build_batch([Record(n, 1000, None, value) for n, value in enumerate(values)])


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def committed_values(bootstrap: str, topic: str) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([ClientPartition(topic, 0, 0)])
    values: list[bytes | None] = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        values.append(message.value())
    consumer.close()
    return values


def test_committed_records_are_visible_and_aborted_ones_are_not(
    bootstrap: str, new_topic: TopicMaker
) -> None:
    topic = new_topic()

    async def scenario() -> None:
        async with Cluster(bootstrap) as cluster:
            producer = TransactionalProducer(cluster, f"{topic}-id")
            await producer.init()
            await producer.send({TopicPartition(topic, 0): [batch(b"a", b"b"), batch(b"c")]})
            await producer.commit()
            await producer.send({TopicPartition(topic, 0): [batch(b"lost")]})
            await producer.abort()
            await producer.send({TopicPartition(topic, 0): [batch(b"d")]})
            await producer.commit()

    run(scenario())
    assert committed_values(bootstrap, topic) == [b"a", b"b", b"c", b"d"]


async def test_offsets_commit_with_the_transaction(bootstrap: str, new_topic: TopicMaker) -> None:
    """The response to a commit is sent before its markers are written; InitProducerId waits for them."""
    topic = new_topic()
    group, tp = f"{topic}-group", TopicPartition(topic, 0)
    async with Cluster(bootstrap) as cluster:
        offsets = GroupOffsets(cluster, Coordinators(cluster))
        producer = TransactionalProducer(cluster, f"{topic}-id")
        await producer.init()
        await producer.send({tp: [batch(b"a")]})
        await producer.commit_offsets(group, {tp: 5})
        await producer.commit()
        await producer.init()
        assert (await offsets.fetch(group, require_stable=True))[tp].offset == 5
        await producer.send({tp: [batch(b"b")]})
        await producer.commit_offsets(group, {tp: 6})
        await producer.abort()
        await producer.init()
        assert (await offsets.fetch(group, require_stable=True))[tp].offset == 5


async def test_a_stable_fetch_waits_for_the_open_transaction(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    group, tp = f"{topic}-group", TopicPartition(topic, 0)
    async with Cluster(bootstrap) as cluster:
        offsets = GroupOffsets(cluster, Coordinators(cluster))
        await offsets.alter(group, {tp: 4})
        producer = TransactionalProducer(cluster, f"{topic}-id")
        await producer.init()
        await producer.send({tp: [batch(b"a")]})
        await producer.commit_offsets(group, {tp: 5})
        waiting = asyncio.create_task(offsets.fetch(group, require_stable=True))
        assert (await offsets.fetch(group))[tp].offset == 4
        assert not waiting.done()
        await producer.commit()
        assert (await waiting)[tp].offset == 5


def test_a_successor_aborts_the_open_transaction_and_fences_its_producer(
    bootstrap: str, new_topic: TopicMaker
) -> None:
    topic = new_topic()
    tp = TopicPartition(topic, 0)

    async def scenario() -> None:
        async with Cluster(bootstrap) as one, Cluster(bootstrap) as other:
            zombie = TransactionalProducer(one, f"{topic}-id")
            await zombie.init()
            await zombie.send({tp: [batch(b"zombie")]})
            successor = TransactionalProducer(other, f"{topic}-id")
            await successor.init()
            await successor.send({tp: [batch(b"successor")]})
            await successor.commit()
            with pytest.raises(TransactionLost, match="another producer"):
                await zombie.send({tp: [batch(b"late")]})
            with pytest.raises(TransactionLost):
                await zombie.commit()

    run(scenario())
    assert committed_values(bootstrap, topic) == [b"successor"]


def test_many_batches_are_stored_in_order(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    values = [b"%d" % number for number in range(200)]

    async def scenario() -> None:
        async with Cluster(bootstrap) as cluster:
            sender = IdempotentSender(cluster, await new_producer_id(cluster))
            await sender.send({TopicPartition(topic, 0): (batch(value) for value in values)})

    run(scenario())
    assert committed_values(bootstrap, topic) == values
