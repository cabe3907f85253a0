"""Moves of replicas between log directories, of a node of either system."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Change, Operation, Resource
from ruslo.client.admin.log_dirs import LogDirectory
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import BrokerUnreachable

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def begin_moves(bootstrap: str, node_id: int, partitions: Iterable[TopicPartition], target: Path) -> None:
    async def begin() -> dict[TopicPartition, KafkaError | None]:
        async with Admin(bootstrap) as admin:
            return await admin.log_dirs.alter(node_id, dict.fromkeys(partitions, str(target)))

    errors = {tp: error for tp, error in asyncio.run(begin()).items() if error is not None}
    assert not errors, errors


def limit_rate(bootstrap: str, node_id: int, bytes_per_s: int) -> None:
    async def limit() -> None:
        async with Admin(bootstrap) as admin:
            change = Change(Operation.SET, str(bytes_per_s))
            await admin.configs.alter(Resource.broker(node_id), {RATE: change})

    asyncio.run(limit())


def wait_until_moved(
    bootstrap: str, node_id: int, partitions: Iterable[TopicPartition], target: Path, timeout_s: float = 90
) -> None:
    """Return when the replicas are in the directory, and no copy of them is left."""
    wanted = {(tp, str(target), False) for tp in partitions}
    topics = {tp.topic for tp in partitions}

    async def describe() -> list[LogDirectory]:
        try:
            async with Admin(bootstrap) as admin:
                return await admin.log_dirs.describe(node_id)
        except BrokerUnreachable:
            # It was killed and starts again.
            return []

    deadline = time.monotonic() + timeout_s
    while True:
        found = {
            (replica.partition, each.path, replica.is_future)
            for each in asyncio.run(describe())
            for replica in each.replicas
            if replica.partition.topic in topics
        }
        if found == wanted:
            return
        assert time.monotonic() < deadline, f"the replicas did not move to {target}: {found}"
        time.sleep(0.05)
