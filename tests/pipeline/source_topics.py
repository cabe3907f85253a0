"""Creates topics, and reads them with the source in this process, without Spark."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import CreatedTopic, NewTopic
from ruslo.client.wire.raw import RawClient
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.reader import BatchReader
from ruslo.pipeline.source.scan_task import ScanTask
from ruslo.pipeline.source.stream_reader import StreamReader
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

NOW = time.time_ns() // 1_000_000 - 60_000
"""A minute ago, because retention would delete older records during the tests."""

_TYPES: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def new_topic(bootstrap: str, partitions: int = 1, name: str | None = None, **config: str) -> str:
    """Create a topic; configs are given with underscores."""
    topic = name or f"source-{uuid.uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in config.items()}

    async def create(admin: Admin) -> None:
        (result,) = (await admin.topics.create([NewTopic(topic, partitions, 1, settings)])).values()
        assert isinstance(result, CreatedTopic), result

    _with_admin(bootstrap, create)
    return topic


def delete_topic(bootstrap: str, topic: str) -> None:
    async def delete(admin: Admin) -> None:
        assert await admin.topics.delete([topic]) == {topic: None}

    _with_admin(bootstrap, delete)


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    _with_admin(bootstrap, lambda admin: admin.topics.add_partitions(topic, total))


def delete_before(bootstrap: str, topic: str, offset: int, partition: int = 0) -> None:
    async def delete(admin: Admin) -> None:
        await admin.topics.delete_records({TopicPartition(topic, partition): offset})

    _with_admin(bootstrap, delete)


def _with_admin(bootstrap: str, work: Callable[[Admin], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with Admin(bootstrap) as admin:
            await work(admin)

    asyncio.run(run())


def produce(
    bootstrap: str,
    topic: str,
    values: Sequence[bytes | None],
    partition: int = 0,
    *,
    key: bytes | None = None,
    timestamp: int = NOW,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    codec: int = 0,
    per_batch: int = 100,
) -> None:
    """Produce batches of ``per_batch`` records; timestamps increase by one."""
    batches = [
        build_batch(
            [
                Record(at, timestamp + begin + at, key, value, headers)
                for at, value in enumerate(values[begin : begin + per_batch])
            ],
            codec=codec,
        )
        for begin in range(0, len(values), per_batch)
    ]
    produce_raw(bootstrap, topic, batches, partition)


def produce_raw(bootstrap: str, topic: str, batches: Sequence[bytes | bytearray], partition: int = 0) -> None:
    async def send(admin: Admin) -> None:
        for batch in batches:
            await RawClient(admin.cluster).produce({TopicPartition(topic, partition): batch})

    _with_admin(bootstrap, send)


def parse(bootstrap: str, *, streaming: bool, **options: str) -> SourceOptions:
    return SourceOptions.parse({"kafka.bootstrap.servers": bootstrap, **options}, streaming=streaming)


def schema_of(options: SourceOptions) -> StructType:
    return StructType([StructField(name, _TYPES[name]) for name in options.columns])


def plan(bootstrap: str, **options: str) -> list[ScanTask]:
    expected = parse(bootstrap, streaming=False, **options)
    tasks = BatchReader(expected, schema_of(expected)).partitions()
    assert all(isinstance(task, ScanTask) for task in tasks)
    return [task for task in tasks if isinstance(task, ScanTask)]


def read(bootstrap: str, **options: str) -> list[dict[str, Any]]:
    """The rows of a batch query, sorted by topic, partition and offset."""
    expected = parse(bootstrap, streaming=False, **options)
    reader = BatchReader(expected, schema_of(expected))
    tables = [batch for task in reader.partitions() for batch in reader.read(task)]
    return ordered(tables)


def ordered(batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row.get("topic"), row.get("partition"), row.get("offset")))


def new_stream(bootstrap: str, **options: str) -> StreamReader:
    expected = parse(bootstrap, streaming=True, **options)
    return StreamReader(expected, schema_of(expected))


def read_between(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    return ordered([batch for task in reader.partitions(start, end) for batch in reader.read(task)])
