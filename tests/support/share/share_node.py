"""A node for share groups with short intervals: Ruslo, or Apache Kafka with ``--target=kafka``."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Change, Operation, Resource
from ruslo.client.admin.topics import CreatedTopic, NewTopic
from ruslo.client.librdkafka.producer import Producer
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.tools.programs import require_tool

LOCK_MS = 2_000
"""The lock duration of groups that ``new_share_group`` creates, unless a test chooses another one."""

SHARE_NODE_PROPERTIES = {
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
}


def new_share_node(directory: Path, target: str, properties: Mapping[str, str] | None = None) -> Node:
    properties = {**SHARE_NODE_PROPERTIES, **(properties or {})}
    if target == "kafka":
        require_tool("java")
        return ApacheKafka(directory, properties=properties)
    return RusloNode(directory, properties=properties)


def new_topic(
    bootstrap: str, partitions: int = 1, replicas: int = 1, *, name: str | None = None, **config: str
) -> str:
    """Create a topic; configs are given with underscores."""
    topic = name or f"share-{uuid.uuid4().hex[:8]}"
    settings = {name.replace("_", "."): value for name, value in config.items()}

    async def create() -> None:
        async with Admin(bootstrap) as admin:
            (result,) = (
                await admin.topics.create([NewTopic(topic, partitions, replicas, settings)])
            ).values()
            assert isinstance(result, CreatedTopic), result

    asyncio.run(create())
    return topic


def new_share_group(bootstrap: str, **config: str) -> str:
    """The id of a group that starts at the earliest offset; configs are given with underscores."""
    group = f"share-{uuid.uuid4().hex[:8]}"
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(LOCK_MS),
        **{name.replace("_", "."): value for name, value in config.items()},
    }
    changes = {name: Change(Operation.SET, value) for name, value in settings.items()}

    async def alter() -> None:
        async with Admin(bootstrap) as admin:
            await admin.configs.alter(Resource.group(group), changes)

    asyncio.run(alter())
    return group


def send(bootstrap: str, topic: str, values: Iterable[str], *, partition: int | None = None) -> None:
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)
