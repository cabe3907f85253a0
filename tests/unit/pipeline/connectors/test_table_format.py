from __future__ import annotations

import asyncio

import pytest
from pyspark.sql.types import BinaryType, StructType

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.librdkafka.producer import Producer
from ruslo.pipeline import partition_counts
from ruslo.pipeline.connectors.table_format import TableReader
from ruslo.testing import EmbeddedBroker

TOPIC = "grown-table"


def test_partitions_added_after_planning_are_read(
    ruslo_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark plans a table once, and partitions may be added during the lifetime of a query."""
    bootstrap = ruslo_broker.bootstrap
    monkeypatch.setattr(partition_counts, "_MAX_AGE_S", 0.0)

    async def change(partitions: int) -> None:
        async with Admin(bootstrap) as admin:
            if partitions == 2:
                await admin.topics.create([NewTopic(TOPIC, partitions=2)])
            else:
                await admin.topics.add_partitions(TOPIC, partitions)

    asyncio.run(change(2))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "columns": "value"}
    reader = TableReader(options, StructType().add("value", BinaryType()))
    planned = reader.partitions()
    asyncio.run(change(5))
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(5):
            producer.send(TOPIC, b"%d" % number, partition=number)
    found = [row["value"] for part in planned for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted(found) == [b"0", b"1", b"2", b"3", b"4"]
