"""kafka-python and aiokafka: the pure Python clients in consumer groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.structs import OffsetAndMetadata as AioOffset
from aiokafka.structs import TopicPartition as AioPartition
from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, TopicPartition

from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import Sent, produce_all

PARTITIONS = 4


def fill(bootstrap: str, topic: str, count: int) -> None:
    produce_all(
        bootstrap, topic, [Sent(b"%d" % number, partition=number % PARTITIONS) for number in range(count)]
    )


# -- kafka-python


class PythonMember:
    """A kafka-python consumer and the records that it read."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: object) -> None:
        self.read: list[tuple[int, int]] = []
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            **settings,
        )
        # A client that joins before it knows its topic assigns nothing until a metadata refresh, which this
        # client sometimes gives up ("Metadata refresh: failed Cancelled").
        assert self.consumer.partitions_for_topic(topic)
        self.consumer.subscribe([topic])

    @property
    def assigned(self) -> set[int]:
        return {tp.partition for tp in self.consumer.assignment()}

    def poll(self) -> None:
        for records in self.consumer.poll(timeout_ms=50).values():
            self.read += [(record.partition, record.offset) for record in records]


def poll_until(members: Sequence[PythonMember], reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not reached():
        assert time.monotonic() < deadline, [(member.assigned, len(member.read)) for member in members]
        for member in members:
            member.poll()


def test_kafka_python_rebalances_and_resumes(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic(partitions=PARTITIONS)
    all_partitions = set(range(PARTITIONS))
    fill(bootstrap, topic, 200)
    first = PythonMember(bootstrap, group, topic)
    poll_until([first], lambda: first.assigned == all_partitions and len(first.read) == 200)
    second = PythonMember(bootstrap, group, topic)
    poll_until([first, second], lambda: len(first.assigned) == len(second.assigned) == 2)
    assert first.assigned | second.assigned == all_partitions
    fill(bootstrap, topic, 200)
    poll_until([first, second], lambda: len(first.read) + len(second.read) == 400)
    first.consumer.close()
    poll_until([second], lambda: second.assigned == all_partitions)
    fill(bootstrap, topic, 40)
    poll_until([second], lambda: len(first.read) + len(second.read) == 440)
    second.consumer.close()
    assert sorted(first.read + second.read) == [
        (p, offset) for p in range(PARTITIONS) for offset in range(110)
    ]


def test_kafka_python_commits(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic(partitions=PARTITIONS)
    fill(bootstrap, topic, 40)
    member = PythonMember(bootstrap, group, topic, enable_auto_commit=False)
    poll_until([member], lambda: len(member.read) == 40)
    tp = TopicPartition(topic, 2)
    assert member.consumer.committed(tp) is None
    member.consumer.commit({tp: OffsetAndMetadata(4, "four", -1)})
    assert member.consumer.committed(tp, metadata=True)[:2] == (4, "four")
    responses: list[object] = []
    member.consumer.commit_async(
        {tp: OffsetAndMetadata(6, "", -1)}, callback=lambda offsets, response: responses.append(response)
    )
    poll_until([member], lambda: bool(responses))
    assert not isinstance(responses[0], Exception)
    member.consumer.close(autocommit=False)

    again = PythonMember(bootstrap, group, topic, enable_auto_commit=False)
    poll_until([again], lambda: len(again.read) == 34)
    assert min(offset for partition, offset in again.read if partition == 2) == 6
    again.consumer.close()


def test_kafka_python_admin(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic(partitions=PARTITIONS)
    fill(bootstrap, topic, 40)
    member = PythonMember(bootstrap, group, topic, client_id="described")
    poll_until([member], lambda: len(member.read) == 40)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert group in {listing["group_id"] for listing in admin.list_groups()}
        described = admin.describe_groups([group])[group]
        assert described["group_state"] == "Stable"
        assert [m["client_id"] for m in described["members"]] == ["described"]
        member.consumer.close()
        offsets = admin.list_group_offsets(group)
        assert {tp.partition: offset.offset for tp, offset in offsets[group].items()} == dict.fromkeys(
            range(4), 10
        )
        admin.delete_groups([group])
        assert group not in {listing["group_id"] for listing in admin.list_groups()}
    finally:
        admin.close()


# -- aiokafka


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Counts revocations and assignments."""

    def __init__(self) -> None:
        self.assigned = 0
        self.revoked = 0

    async def on_partitions_revoked(self, revoked: set[AioPartition]) -> None:
        self.revoked += 1

    async def on_partitions_assigned(self, assigned: set[AioPartition]) -> None:
        self.assigned += 1


def test_aiokafka_rebalances_and_resumes(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic(partitions=PARTITIONS)
    all_partitions = set(range(PARTITIONS))
    read: list[tuple[int, int]] = []

    def new_member(**settings: object) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            **settings,
        )

    def assigned(member: AIOKafkaConsumer) -> set[int]:
        return {tp.partition for tp in member.assignment()}

    async def until(members: Sequence[AIOKafkaConsumer], reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(40):
            while not reached():
                for member in members:
                    for records in (await member.getmany(timeout_ms=50)).values():
                        read.extend((record.partition, record.offset) for record in records)

    async def rebalance() -> None:
        listener = Listener()
        async with new_member() as first:
            first.subscribe([topic], listener=listener)
            await until([first], lambda: assigned(first) == all_partitions and len(read) == 200)
            async with new_member() as second:
                second.subscribe([topic])
                await until([first, second], lambda: len(assigned(first)) == len(assigned(second)) == 2)
                assert assigned(first) | assigned(second) == all_partitions
                fill(bootstrap, topic, 40)
                await until([first, second], lambda: len(read) == 240)
            await until([first], lambda: assigned(first) == all_partitions)
            assert listener.assigned == 3
            fill(bootstrap, topic, 40)
            await until([first], lambda: len(read) == 280)

    fill(bootstrap, topic, 200)
    asyncio.run(rebalance())
    assert sorted(read) == [(p, offset) for p in range(PARTITIONS) for offset in range(70)]


async def test_aiokafka_commits(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic(partitions=PARTITIONS)
    fill(bootstrap, topic, 40)
    tp = AioPartition(topic, 1)

    def new_member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    async with asyncio.timeout(40):
        async with new_member() as member:
            for _ in range(40):
                await member.getone()
            assert await member.committed(tp) is None
            await member.commit({tp: AioOffset(3, "three")})
            assert await member.committed(tp) == 3
        async with new_member() as member:
            read = [await member.getone() for _ in range(37)]
            assert min(record.offset for record in read if record.partition == 1) == 3
            await member.commit()
        async with new_member() as member:
            assert [await member.committed(AioPartition(topic, n)) for n in range(4)] == [10] * 4
