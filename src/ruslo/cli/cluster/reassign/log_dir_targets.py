"""The log directories that a plan names: checks them, starts the moves and shows how far they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ruslo.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ruslo.cli.cluster.reassign.plan_file import LogDirs
    from ruslo.client.admin.admin import Admin
    from ruslo.model.topics import TopicPartition

_START_TIMEOUT_S = 10.0
"""The time that moves have to start, the same as in Apache Kafka's tool."""
_POLL_INTERVAL_S = 0.1


async def check_directories(admin: Admin, log_dirs: LogDirs) -> None:
    """Raise KafkaError unless all directories are in use on their brokers."""
    for broker, paths in log_dirs.items():
        found = {each.path: each for each in await admin.log_dirs.describe(broker)}
        for path in sorted(set(paths.values())):
            if path not in found:
                raise KafkaError(
                    ErrorCode.LOG_DIR_NOT_FOUND,
                    f"Broker {broker} has no log directory {path}; its directories are {', '.join(found)}",
                )
            if (error := found[path].error) is not None:
                raise error


async def current_directories(admin: Admin, log_dirs: LogDirs) -> LogDirs:
    """Where the replicas that the plan moves are now."""
    return {
        broker: {
            replica.partition: each.path
            for each in await admin.log_dirs.describe(broker)
            for replica in each.replicas
            if replica.partition in paths and not replica.is_future
        }
        for broker, paths in log_dirs.items()
    }


async def start_moves(admin: Admin, log_dirs: LogDirs) -> dict[TopicPartition, KafkaError]:
    """Start the moves; returns the first error of each partition.

    A broker remembers the directory of a replica that it does not have yet, so that it is created there. The
    request is repeated until the broker has it, because the replica may be created in the meantime.
    """
    deadline = asyncio.get_running_loop().time() + _START_TIMEOUT_S
    waiting = {broker: dict(paths) for broker, paths in log_dirs.items()}
    failed: dict[TopicPartition, KafkaError] = {}
    while True:
        late: dict[TopicPartition, KafkaError] = {}
        for broker, paths in waiting.items():
            results = await admin.log_dirs.alter(broker, paths) if paths else {}
            for partition, error in results.items():
                if error is not None and error.code is ErrorCode.REPLICA_NOT_AVAILABLE:
                    late[partition] = error
                    continue
                del paths[partition]
                if error is not None:
                    failed.setdefault(partition, error)
        if not late:
            return failed
        if asyncio.get_running_loop().time() >= deadline:
            return late | failed
        await asyncio.sleep(_POLL_INTERVAL_S)


async def unfinished_moves(admin: Admin, log_dirs: LogDirs) -> dict[TopicPartition, dict[int, bool]]:
    """The brokers whose replica is not in its directory yet, and whether it is being copied to it."""
    unfinished: dict[TopicPartition, dict[int, bool]] = {}
    for broker, paths in log_dirs.items():
        directories = {
            (replica.partition, replica.is_future): each.path
            for each in await admin.log_dirs.describe(broker)
            for replica in each.replicas
            if replica.partition in paths
        }
        for partition, path in paths.items():
            if directories.get((partition, False)) != path:
                is_moving = directories.get((partition, True)) == path
                unfinished.setdefault(partition, {})[broker] = is_moving
    return unfinished
