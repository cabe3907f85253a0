"""ruslo.AsyncProducer and ruslo.AsyncConsumer with a real broker."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

import ruslo
from ruslo import TopicPartition
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.testing import EmbeddedBroker

_numbers = itertools.count()
Config = dict[str, ClientConfigValue]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"group.initial.rebalance.delay.ms": "0", "num.partitions": "1"}) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def config(broker: EmbeddedBroker) -> Config:
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0}


@pytest.fixture
def reading(config: Config, topic: str) -> Config:
    return {**config, "group.id": topic, "auto.offset.reset": "earliest"}


def as_text(number: int) -> bytes:
    return b"%d" % number


def whole_number(data: bytes | None) -> int:
    return int(data or b"0")


async def fill(config: Config, topic: str, count: int = 10) -> None:
    async with ruslo.AsyncProducer(config) as producer:
        for delivery in await producer.send_many(topic, [b"%d" % number for number in range(count)]):
            await delivery


async def test_send_and_iterate(config: Config, reading: Config, topic: str) -> None:
    async with ruslo.AsyncProducer(config, value_serializer=as_text) as producer:
        assert (await producer.send_and_wait(topic, 0)).offset == 0
        deliveries = [await producer.send(topic, number) for number in range(1, 100)]
        stored = await asyncio.gather(*deliveries)
        assert [record.offset for record in stored] == list(range(1, 100))
        await producer.flush()
        assert len(producer) == 0
    values = []
    async with ruslo.AsyncConsumer(reading, value_deserializer=whole_number) as consumer:
        await consumer.subscribe([topic])
        async for record in consumer:
            values.append(record.value)
            if len(values) == 100:
                break
        await consumer.commit()
        tp = TopicPartition(topic, 0)
        assert await consumer.committed([tp]) == {tp: 100}
        assert await consumer.offset_range(tp) == (0, 100)
    assert values == list(range(100))


async def test_a_cancelled_read_loses_nothing(config: Config, reading: Config, topic: str) -> None:
    async with ruslo.AsyncConsumer(reading) as consumer:
        await consumer.subscribe([topic])
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(consumer), 0.05)
        await fill(config, topic)
        values = [(await anext(consumer)).value for _ in range(10)]
        assert values == [b"%d" % number for number in range(10)]
        waiting = asyncio.create_task(consumer.poll(30))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await fill(config, topic)
        assert len(await consumer.poll(30)) >= 1


async def test_a_cancelled_read_blocks_nothing(reading: Config, topic: str) -> None:
    async with asyncio.timeout(60), ruslo.AsyncConsumer(reading) as consumer:
        await consumer.subscribe([topic])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(consumer), 0.05)
        # No record arrives, so a read that was not cancelled would block all of this forever.
        assert await consumer.assignment() == []
        waiting = asyncio.create_task(consumer.poll(3_600))
        await asyncio.sleep(0.05)
        waiting.cancel()


async def test_records_of_a_cancelled_read_are_not_committed(
    config: Config, reading: Config, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    await fill(config, topic, 1)
    async with asyncio.timeout(60), ruslo.AsyncConsumer(reading) as consumer:
        await consumer.subscribe([topic])
        assert (await anext(consumer)).offset == 0
        waiting = asyncio.create_task(anext(consumer))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await fill(config, topic, 3)
        await consumer.commit()
        assert await consumer.committed([tp]) == {tp: 1}
        assert [(await anext(consumer)).offset for _ in range(3)] == [1, 2, 3]


async def test_a_seek_in_another_partition_loses_nothing_of_a_cancelled_read(
    config: Config, topic: str
) -> None:
    async with Admin(str(config["bootstrap.servers"])) as admin:
        await admin.topics.create([NewTopic(topic, partitions=2)])
    read, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with ruslo.AsyncProducer(config) as producer:
        for number in range(10):
            await producer.send(topic, b"%d" % number, partition=0)
    async with asyncio.timeout(60), ruslo.AsyncConsumer(config) as consumer:
        await consumer.assign({read: ruslo.START, other: ruslo.START})
        offsets = [(await anext(consumer)).offset]
        waiting = asyncio.create_task(consumer.poll(30))
        await asyncio.sleep(0)
        seeking = asyncio.create_task(consumer.seek(other, 0))
        await asyncio.sleep(0)
        waiting.cancel()
        await seeking
        while offsets[-1] != 9:
            offsets.append((await anext(consumer)).offset)
        assert offsets == list(range(10))
        assert consumer.position(other) == 0


async def test_an_error_is_raised_once_and_reading_continues(
    config: Config, reading: Config, topic: str
) -> None:
    def no_three(data: bytes | None) -> bytes | None:
        if data == b"3":
            raise ValueError("unlucky")
        return data

    await fill(config, topic)
    tp = TopicPartition(topic, 0)
    async with ruslo.AsyncConsumer(reading, value_deserializer=no_three) as consumer:
        await consumer.assign({tp: 3})
        with pytest.raises(ruslo.UndecodableRecord):
            await anext(consumer)
        with pytest.raises(ruslo.UndecodableRecord):
            await consumer.poll(30)
        await consumer.seek(tp, 4)
        assert (await anext(consumer)).offset == 4
        assert (await consumer.poll(30))[0].offset == 5


async def test_the_event_loop_runs_while_the_buffer_is_full(
    ruslo_broker_factory: Callable[..., EmbeddedBroker],
) -> None:
    broker = ruslo_broker_factory()
    config: Config = {
        "bootstrap.servers": broker.bootstrap,
        "buffer.memory": 20_000,
        "max.block.ms": 500,
        "log_level": 0,
    }
    producer = ruslo.AsyncProducer(config)
    await producer.send_and_wait("t", b"first")
    await asyncio.to_thread(broker.stop)
    sent = []
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())

    async def send_forever() -> None:
        while True:
            sent.append(await producer.send("t", b"x" * 1000))

    with pytest.raises(ruslo.BufferExhausted, match=r"max\.block\.ms"):
        await send_forever()
    ticking.cancel()
    assert ticks > 3
    await asyncio.to_thread(broker.start)
    stored = await asyncio.gather(*sent)
    assert [record.offset for record in stored] == list(range(1, len(sent) + 1))
    await producer.close()


async def test_transactions(config: Config, reading: Config, topic: str) -> None:
    target = f"{topic}-out"
    await fill(config, topic)
    manual = {**reading, "enable.auto.commit": False}
    tp = TopicPartition(topic, 0)
    async with (
        ruslo.AsyncProducer({**config, "transactional.id": topic}) as producer,
        ruslo.AsyncConsumer(manual) as consumer,
    ):
        await consumer.subscribe([topic])
        async for records in consumer.batches():
            async with producer.transaction() as transaction:
                for record in records:
                    await producer.send(target, record.value)
                await transaction.send_offsets(consumer)
            if consumer.position(tp) == 10:
                break

        async def fail() -> None:
            async with producer.transaction():
                await producer.send(target, b"dropped")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await consumer.committed([tp]) == {tp: 10}
    committed = {**config, "isolation.level": "read_committed"}
    async with ruslo.AsyncConsumer(committed) as consumer:
        await consumer.assign({TopicPartition(target, 0): ruslo.START})
        values = [(await anext(consumer)).value for _ in range(10)]
        assert values == [b"%d" % number for number in range(10)]
        assert await consumer.poll(0.3) == []


async def test_cancelling_the_start_of_a_transaction_leaves_none_open(config: Config, topic: str) -> None:
    async with ruslo.AsyncProducer({**config, "transactional.id": topic}) as producer:

        async def write(value: bytes) -> None:
            async with producer.transaction():
                await producer.send(topic, value)

        beginning = asyncio.create_task(write(b"cancelled"))
        await asyncio.sleep(0)
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        await write(b"written")
    committed = {**config, "isolation.level": "read_committed"}
    async with ruslo.AsyncConsumer(committed) as consumer:
        await consumer.assign({TopicPartition(topic, 0): ruslo.START})
        assert (await anext(consumer)).value == b"written"


async def test_cancelling_a_transaction_before_its_end_leaves_none_open(config: Config, topic: str) -> None:
    busy, at_the_end = threading.Event(), asyncio.Event()
    async with ruslo.AsyncProducer({**config, "transactional.id": topic}) as producer:

        async def write(value: bytes) -> None:
            async with producer.transaction():
                await producer.send(topic, value)

        async def write_while_another_task_waits() -> None:
            async with producer.transaction():
                await producer.send(topic, b"cancelled")
                # A send of another task does the same while it waits for buffer memory or for a topic.
                asyncio.get_running_loop().run_in_executor(producer._blocking, busy.wait)
                at_the_end.set()

        ending = asyncio.create_task(write_while_another_task_waits())
        await at_the_end.wait()
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        busy.set()
        await write(b"written")
    committed = {**config, "isolation.level": "read_committed"}
    async with asyncio.timeout(60), ruslo.AsyncConsumer(committed) as consumer:
        await consumer.assign({TopicPartition(topic, 0): ruslo.START})
        values = [(await anext(consumer)).value for _ in range(2)]
        assert values == [b"cancelled", b"written"], "the commit had started and completes"


async def test_rebalance_callbacks_are_coroutines_and_may_use_the_consumer(
    config: Config, reading: Config, topic: str
) -> None:
    await fill(config, topic)
    calls: list[str] = []
    async with ruslo.AsyncConsumer({**reading, "enable.auto.commit": False}) as consumer:

        async def begin(partitions: list[TopicPartition]) -> None:
            calls.append("assigned")
            await consumer.seek(partitions[0], 5)

        async def end(partitions: list[TopicPartition]) -> None:
            calls.append("revoked")
            await consumer.commit()

        await consumer.subscribe([topic], on_assign=begin, on_revoke=end)
        assert [(await anext(consumer)).offset for _ in range(5)] == [5, 6, 7, 8, 9]
    assert calls == ["assigned", "revoked"]
    async with ruslo.AsyncConsumer(reading) as consumer:
        tp = TopicPartition(topic, 0)
        assert await consumer.committed([tp]) == {tp: 10}
