from __future__ import annotations

import asyncio
import time

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.librdkafka.producer import Producer
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.fetching import scan_wire
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.planning import OffsetRange
from ruslo.testing import EmbeddedBroker

TOPIC = "read-slowly"
RECORDS = 5
SIZE = 100_000


async def create(bootstrap: str) -> bytes:
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(TOPIC, partitions=2)])
        return (await admin.topics.describe(TOPIC)).topic_id


def test_a_slow_reader_does_not_lose_a_partition_that_waits_for_others(
    ruslo_broker: EmbeddedBroker,
) -> None:
    """A response has room for one partition only, so the other one is empty before its end."""
    bootstrap = ruslo_broker.bootstrap
    topic_id = asyncio.run(create(bootstrap))
    with Producer({"bootstrap.servers": bootstrap, "batch.size": 1}) as producer:
        for number in range(2 * RECORDS):
            producer.send(TOPIC, bytes(SIZE), partition=number % 2)
    timeout_ms = 1000
    options = SourceOptions.parse(
        {
            "kafka.bootstrap.servers": bootstrap,
            "kafka.request.timeout.ms": str(timeout_ms),
            "kafka.max.partition.fetch.bytes": str(SIZE),
            "subscribe": TOPIC,
        },
        streaming=False,
    )
    ranges = tuple(OffsetRange(TopicPartition(TOPIC, p), topic_id, 0, RECORDS, float(SIZE)) for p in range(2))
    found: list[tuple[int, int]] = []
    for chunk in scan_wire(ranges, options):
        if not found:
            time.sleep(1.5 * timeout_ms / 1000)
        rows = [int(offset) for part in chunk.rows(read_committed=True) for offset in part.offsets]
        found += [(chunk.offset_range.partition.partition, offset) for offset in rows]
    assert sorted(found) == [(partition, offset) for partition in range(2) for offset in range(RECORDS)]
