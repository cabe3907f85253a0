"""The cluster at one moment: its topics, how far their partitions are, and how much disk they take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.log_dirs import LogDirectory
from ruslo.client.admin.offsets import Spec
from ruslo.client.wire.metadata import Node, TopicInfo
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.protocol.messages.metadata_response import MetadataResponse

_PARTITIONS_PER_REQUEST = 2000


@dataclass(frozen=True, slots=True)
class Snapshot:
    at_s: float
    """On the monotonic clock."""
    nodes: Mapping[int, Node]
    controller_id: int
    topics: Mapping[str, TopicInfo]
    ends: Mapping[TopicPartition, int]
    """Next offsets of the partitions that have a leader."""
    sizes: Mapping[TopicPartition, int]
    """On the disks of their leaders."""
    directories: Mapping[int, tuple[LogDirectory, ...]]
    """By broker; those that could not be asked are not there."""
    round_trips_ms: Mapping[int, float]
    """By broker: a request that costs nothing, there and back."""

    def topic_end(self, name: str) -> int | None:
        return _sum(self.ends.get(place) for place in self._places(name))

    def topic_size(self, name: str) -> int | None:
        return _sum(self.sizes.get(place) for place in self._places(name))

    def _places(self, name: str) -> list[TopicPartition]:
        return [TopicPartition(name, each.partition) for each in self.topics[name].partitions]


async def take_snapshot(admin: Admin, before: Snapshot | None, *, with_sizes: bool) -> Snapshot:
    """Sizes are asked for now and then; in between those of ``before`` stay."""
    metadata = await admin.cluster.retrying(admin.cluster.metadata)
    # What the client knows changes while we ask further: a topic that is being made comes and goes.
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
        _directories(admin, nodes) if with_sizes or before is None else _kept(before),
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
    """Of those that can be had: one partition without a leader must not hide the others."""
    found: dict[TopicPartition, int] = {}
    for start in range(0, len(partitions), _PARTITIONS_PER_REQUEST):
        part = partitions[start : start + _PARTITIONS_PER_REQUEST]
        try:
            listed = await admin.offsets.find(dict.fromkeys(part, Spec.LATEST))
        except KafkaError:
            continue
        found |= {place: each.offset for place, each in listed.items()}
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
    async def ask(node_id: int) -> tuple[LogDirectory, ...] | None:
        try:
            return tuple(await admin.log_dirs.describe(node_id))
        except KafkaError:
            # To look into log directories is a right of its own, and a broker may be gone.
            return None

    answers = await asyncio.gather(*(ask(node_id) for node_id in nodes))
    return {node_id: answer for node_id, answer in zip(nodes, answers, strict=True) if answer is not None}


async def _kept(before: Snapshot) -> Mapping[int, tuple[LogDirectory, ...]]:
    return before.directories


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
