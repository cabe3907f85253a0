"""The cluster at one time: topics, end offsets and sizes of partitions, log directories."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.log_dirs import LogDirectory
from ruslo.client.admin.offsets import Spec
from ruslo.client.wire.metadata import Node, TopicInfo
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.model.units import sum_known
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.protocol.messages.metadata_response import MetadataResponse

_PARTITIONS_PER_REQUEST = 2000


@dataclass(frozen=True, slots=True)
class Snapshot:
    at_s: float
    """The time of the snapshot on the monotonic clock."""
    nodes: Mapping[int, Node]
    controller_id: int
    topics: Mapping[str, TopicInfo]
    ends: Mapping[TopicPartition, int]
    """End offsets of the partitions that have a leader."""
    sizes: Mapping[TopicPartition, int]
    """Log sizes on the leaders."""
    directories: Mapping[int, tuple[LogDirectory, ...]]
    """Log directories by broker; brokers that did not respond are left out."""
    round_trips_ms: Mapping[int, float]
    """The round trip of a cheap request by broker."""

    def topic_size(self, name: str) -> int | None:
        partitions = (TopicPartition(name, each.partition) for each in self.topics[name].partitions)
        return sum_known(map(self.sizes.get, partitions))


async def take_snapshot(admin: Admin, before: Snapshot | None, *, with_sizes: bool) -> Snapshot:
    """Without ``with_sizes`` the log directories of ``before`` are reused."""
    metadata = await admin.cluster.retrying(admin.cluster.metadata)
    # The client's metadata changes during later requests, so copy it.
    nodes, topics = dict(metadata.nodes), dict(metadata.topics)
    led = [
        TopicPartition(topic.name, each.partition)
        for topic in topics.values()
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    round_trips, ends, directories = await asyncio.gather(
        _round_trips(admin, nodes),
        _ends(admin, led),
        _directories(admin, nodes) if with_sizes or before is None else _directories_of(before),
    )
    leaders = {
        TopicPartition(topic.name, each.partition): each.leader_id
        for topic in topics.values()
        for each in topic.partitions
    }
    sizes = {
        replica.partition: replica.size_bytes
        for node_id, owned in directories.items()
        for directory in owned
        for replica in directory.replicas
        if leaders.get(replica.partition) == node_id and not replica.is_future
    }
    return Snapshot(
        time.monotonic(),
        nodes,
        metadata.controller_id,
        topics,
        ends,
        sizes,
        directories,
        round_trips,
    )


async def _ends(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """End offsets. A partition without a leader must not hide the others."""
    found: dict[TopicPartition, int] = {}
    for start in range(0, len(partitions), _PARTITIONS_PER_REQUEST):
        part = partitions[start : start + _PARTITIONS_PER_REQUEST]
        try:
            listed = await admin.offsets.find(dict.fromkeys(part, Spec.LATEST))
        except KafkaError:
            continue
        found |= {tp: each.offset for tp, each in listed.items()}
    return found


async def _round_trips(admin: Admin, nodes: Mapping[int, Node]) -> dict[int, float]:
    async def measure(node_id: int) -> float | None:
        try:
            await admin.cluster.connection(node_id)
            start = time.perf_counter()
            await admin.cluster.node(node_id, MetadataRequest(topics=[]), MetadataResponse, min_version=4)
        except KafkaError:
            return None
        return (time.perf_counter() - start) * 1000

    measured = await asyncio.gather(*(measure(node_id) for node_id in nodes))
    return {node_id: took for node_id, took in zip(nodes, measured, strict=True) if took is not None}


async def _directories(admin: Admin, nodes: Mapping[int, Node]) -> dict[int, tuple[LogDirectory, ...]]:
    async def describe(node_id: int) -> tuple[LogDirectory, ...] | None:
        try:
            return tuple(await admin.log_dirs.describe(node_id))
        except KafkaError:
            return None  # it needs its own permission, or the broker is gone

    found = await asyncio.gather(*(describe(node_id) for node_id in nodes))
    return {node_id: each for node_id, each in zip(nodes, found, strict=True) if each is not None}


async def _directories_of(before: Snapshot) -> Mapping[int, tuple[LogDirectory, ...]]:
    return before.directories
