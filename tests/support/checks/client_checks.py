"""Client tests that run on both Ruslo and Apache Kafka."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Change, ConfigSource, Operation, Resource
from ruslo.client.admin.offsets import Spec
from ruslo.client.admin.topics import CreatedTopic, NewTopic
from ruslo.client.librdkafka.consumer import END, START, ConsumedRecord, Consumer, PartitionEnd
from ruslo.client.librdkafka.producer import Producer, RecordMetadata
from ruslo.client.settings.setting import ConfigValue
from ruslo.client.wire.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.records.builder import build_batch
from ruslo.records.reader import iter_batches, read_records
from ruslo.records.record import Record

T = TypeVar("T")
_topic_numbers = itertools.count()


def with_admin(bootstrap: str, action: Callable[[Admin], Awaitable[T]]) -> T:
    async def run() -> T:
        async with Admin(bootstrap) as admin:
            return await action(admin)

    return asyncio.run(run())


def batch(count: int, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    records = [Record(n, timestamp_ms + n, b"key", b"value-%d" % n) for n in range(count)]
    return bytes(build_batch(records))


class ClientChecks:
    """A subclass provides the broker as a fixture ``bootstrap``."""

    @pytest.fixture
    def topic(self, bootstrap: str) -> str:
        """A new topic with three partitions and unlimited retention."""
        new = NewTopic(f"client-{next(_topic_numbers)}", partitions=3, configs={"retention.ms": "-1"})
        with_admin(bootstrap, lambda admin: admin.topics.create([new]))
        return new.name

    # -- admin

    def test_create_with_a_replica_assignment(self, bootstrap: str) -> None:
        async def action(admin: Admin) -> None:
            results = await admin.topics.create([NewTopic("placed", assignments={0: [1], 1: [1]})])
            assert isinstance(results["placed"], CreatedTopic)
            info = await admin.topics.describe("placed")
            assert [(p.partition, p.replicas, p.isr) for p in info.partitions] == [
                (0, (1,), (1,)),
                (1, (1,), (1,)),
            ]
            assert info.topic_id == results["placed"].topic_id

        with_admin(bootstrap, action)

    def test_fetched_batches_are_byte_identical(self, bootstrap: str, topic: str) -> None:
        async def action(admin: Admin) -> None:
            raw = RawClient(admin.cluster)
            first, third = TopicPartition(topic, 0), TopicPartition(topic, 2)
            produced = await raw.produce({first: batch(5), third: batch(2)})
            assert [produced[p].base_offset for p in (first, third)] == [0, 0]
            assert (await raw.produce({first: batch(3)}))[first].base_offset == 5
            fetched = await raw.fetch({first: 0, third: 0})
            assert fetched[first].high_watermark == 8
            headers = [header for _, header in iter_batches(fetched[first].records)]
            assert [(h.base_offset, h.count) for h in headers] == [(0, 5), (5, 3)]
            # The broker sets the base offset and the leader epoch; bytes covered by the CRC are unchanged.
            assert bytes(fetched[third].records)[16:] == batch(2)[16:]
            middle = await raw.fetch({first: 6})
            assert [h.base_offset for _, h in iter_batches(middle[first].records)] == [5]
            with pytest.raises(KafkaError) as caught:
                await raw.fetch({first: 99})
            assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

        with_admin(bootstrap, action)

    def test_raw_produce_without_acks(self, bootstrap: str, topic: str) -> None:
        async def action(admin: Admin) -> None:
            tp = TopicPartition(topic, 1)
            raw = RawClient(admin.cluster)
            # With acks, so that the leader of the new partition knows that it leads.
            assert (await raw.produce({tp: batch(1)}))[tp].base_offset == 0
            assert (await raw.produce({tp: batch(1)}, acks=0))[tp].base_offset == -1
            # The same connection: the broker processes this request after the previous one.
            assert (await raw.produce({tp: batch(1)}))[tp].base_offset == 2

        with_admin(bootstrap, action)

    def test_a_batch_with_a_wrong_crc_is_rejected(self, bootstrap: str, topic: str) -> None:
        async def action(admin: Admin) -> None:
            damaged = bytearray(batch(1))
            damaged[-1] ^= 1
            # The error is retried until the timeout, which must not be spent on the first metadata request.
            async with Admin(bootstrap, api_timeout_ms=1_000) as hasty:
                await hasty.cluster.metadata([topic])
                with pytest.raises(KafkaError) as caught:
                    await RawClient(hasty.cluster).produce({TopicPartition(topic, 0): damaged})
            assert caught.value.code == ErrorCode.CORRUPT_MESSAGE

        with_admin(bootstrap, action)

    def test_offsets(self, bootstrap: str, topic: str) -> None:
        async def action(admin: Admin) -> None:
            tp, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
            await RawClient(admin.cluster).produce({tp: batch(10)})
            assert await admin.offsets.ranges([tp, empty]) == {tp: (0, 10), empty: (0, 0)}
            by_time = await admin.offsets.find({tp: 1_700_000_000_004, empty: 1})
            assert (by_time[tp].offset, by_time[tp].timestamp_ms) == (4, 1_700_000_000_004)
            assert by_time[empty].offset == -1
            assert (await admin.offsets.find({tp: Spec.MAX_TIMESTAMP}))[tp].offset == 9

        with_admin(bootstrap, action)

    def test_configs(self, bootstrap: str, topic: str) -> None:
        async def action(admin: Admin) -> None:
            resource = Resource.topic(topic)
            changes = {"cleanup.policy": Change(Operation.APPEND, "compact")}
            await admin.configs.alter(resource, changes, validate_only=True)
            (entry,) = await admin.configs.describe(resource, ["cleanup.policy"])
            assert (entry.value, entry.source, entry.is_set) == ("delete", ConfigSource.DEFAULT, False)
            await admin.configs.alter(resource, changes)
            deadline = time.monotonic() + 30
            while entry.value == "delete":
                # Apache Kafka responds when the change is committed; its brokers apply it a little later.
                assert time.monotonic() < deadline
                (entry,) = await admin.configs.describe(resource, ["cleanup.policy"])
            assert (entry.value, entry.source) == ("delete,compact", ConfigSource.TOPIC)

        with_admin(bootstrap, action)

    def test_producers_of_a_partition(self, bootstrap: str, topic: str) -> None:
        with Producer({"bootstrap.servers": bootstrap}) as producer:
            for _ in range(3):
                producer.send(topic, b"x", partition=0)
        tp = TopicPartition(topic, 0)
        (active,) = with_admin(bootstrap, lambda admin: admin.producers.describe([tp]))[tp]
        assert active.producer_id >= 0
        assert (active.producer_epoch, active.last_sequence) == (0, 2)

    def test_describe_the_cluster(self, bootstrap: str) -> None:
        async def action(admin: Admin) -> None:
            description = await admin.brokers.describe_cluster()
            assert [(b.node.address, b.fenced) for b in description.brokers] == [(bootstrap, False)]
            assert (await admin.cluster.metadata([])).cluster_id == description.cluster_id
            quorum = await admin.quorum.describe()
            assert [voter.replica_id for voter in quorum.voters] == [1]
            features = {each.name for each in (await admin.features.describe()).features}
            assert features >= {"metadata.version", "kraft.version"}
            assert all(directory.error is None for directory in await admin.log_dirs.describe(1))

        with_admin(bootstrap, action)

    # -- producer and consumer

    def test_delivery_reports_have_partition_and_offset(self, bootstrap: str, topic: str) -> None:
        delivered: list[tuple[KafkaError | None, RecordMetadata]] = []
        with Producer({"bootstrap.servers": bootstrap}) as producer:
            for number in range(5):
                producer.produce(
                    topic,
                    b"%d" % number,
                    key="k",
                    headers=[("h", b"1"), ("none", None)],
                    partition=1,
                    timestamp_ms=1_700_000_000_000 + number,
                    on_delivery=lambda error, record: delivered.append((error, record)),
                )
            producer.flush()
            assert len(producer) == 0
        assert [error for error, _ in delivered] == [None] * 5
        assert [(r.topic, r.partition, r.offset) for _, r in delivered] == [(topic, 1, n) for n in range(5)]
        with Consumer({"bootstrap.servers": bootstrap}) as consumer:
            consumer.assign({TopicPartition(topic, 1): START})
            records = read_all(consumer, 5)
        assert records[3] == ConsumedRecord(
            topic, 1, 3, 1_700_000_000_003, b"k", b"3", (("h", b"1"), ("none", None))
        )

    def test_flush_raises_a_failure_that_was_not_read(self, bootstrap: str) -> None:
        topic = f"client-{next(_topic_numbers)}"
        small = NewTopic(topic, configs={"max.message.bytes": "100"})
        with_admin(bootstrap, lambda admin: admin.topics.create([small]))
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.send(topic, b"x" * 1000, partition=0)
        with pytest.raises(KafkaError, match="1 records were not stored") as caught:
            producer.flush()
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        producer.send(topic, b"x", partition=0)
        producer.close()

    def test_consumer_positions(self, bootstrap: str, topic: str) -> None:
        tp = TopicPartition(topic, 0)
        with_admin(bootstrap, lambda admin: RawClient(admin.cluster).produce({tp: batch(10)}))
        config: dict[str, ConfigValue] = {
            "bootstrap.servers": bootstrap,
            "enable.partition.eof": True,
            "max.poll.records": 4,
            "allow.auto.create.topics": False,
        }
        with Consumer(config) as consumer:
            assert consumer.partitions_for(topic) == [0, 1, 2]
            assert consumer.offset_range(tp) == (0, 10)
            assert consumer.offsets_for_times({tp: 1_700_000_000_006}) == {tp: 6}
            assert consumer.offsets_for_times({tp: 1_800_000_000_000}) == {tp: END}
            consumer.assign({tp: 8})
            assert consumer.assignment() == [tp]
            assert [r.offset for r in read_all(consumer, 2)] == [8, 9]
            assert wait_for_end(consumer) == PartitionEnd(topic, 0, 10)
            consumer.seek(tp, 1)
            first = next(events for events in iter(lambda: consumer.poll(1), None) if events)
            assert 1 <= len(first) <= 4
            assert first[0].offset == 1
            with pytest.raises(KafkaError) as caught:
                consumer.partitions_for("none-such")
            assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_records_of_a_raw_batch_can_be_read(self, bootstrap: str, topic: str) -> None:
        with Producer(
            {"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 50}
        ) as producer:
            for number in range(100):
                producer.send(topic, b"value %d" % number, partition=0)
        tp = TopicPartition(topic, 0)
        fetched = with_admin(bootstrap, lambda admin: RawClient(admin.cluster).fetch({tp: 0}))[tp]
        data = memoryview(fetched.records)
        values = [
            record.value
            for pos, header in iter_batches(data)
            for record in read_records(data[pos : pos + header.size])
        ]
        assert values == [b"value %d" % number for number in range(100)]


def read_all(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    deadline = time.monotonic() + 30
    while len(records) < count:
        assert time.monotonic() < deadline, records
        records += consumer.poll(1)
    return records


def wait_for_end(consumer: Consumer) -> PartitionEnd:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for event in consumer.poll_events(1):
            if isinstance(event, PartitionEnd):
                return event
    raise AssertionError("no PartitionEnd arrived")
