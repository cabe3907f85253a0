"""A log directory whose disk can delay syncs, a flusher, and partitions on request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from ruslo.broker.counters.traffic import TopicTraffic
from ruslo.broker.partitions.ack_wait import Appended
from ruslo.broker.partitions.flusher import Flusher
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.log_config import LogConfig
from ruslo.model.clock import SystemClock
from ruslo.model.errors import StorageError
from ruslo.model.ids import random_uuid
from ruslo.model.topics import TopicPartition
from ruslo.storage.log_dir import LogDir
from tests.support.brokers.live_node import NOW, HeldDisk, batch_of

NODE_ID = 1


class Bench:
    def __init__(self, path: Path) -> None:
        self.disk = HeldDisk(str(path))
        self.directory = LogDir(self.disk, SystemClock())
        clock = SystemClock()
        self.failures: list[StorageError] = []
        self.flusher = Flusher("test", clock, Scheduler(clock), self.failures.append)

    def partition(
        self, topic: str = "t", *, leads: bool = True, config: LogConfig | None = None
    ) -> Partition:
        topic_id = random_uuid()
        log = self.directory.create(TopicPartition(topic, 0), topic_id, config or LogConfig())
        partition = Partition(NODE_ID, topic, topic_id, 0, log, self.flusher, TopicTraffic())
        if leads:
            partition.become_leader(0)
        return partition


@contextlib.asynccontextmanager
async def on_bench(path: Path) -> AsyncIterator[Bench]:
    bench = Bench(path)
    try:
        async with asyncio.timeout(20):
            yield bench
    finally:
        bench.disk.free.set()
        await bench.flusher.close()
        bench.directory.abandon()


def append(partition: Partition, *values: bytes) -> Appended:
    return partition.append(memoryview(batch_of(*values)), NOW)
