"""Offsets of partitions: first, next, by time; and the producers that write to them."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import error_of
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ruslo.protocol.messages.describe_producers_response import DescribeProducersResponse
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse

_NO_OFFSET = -1
_PARTITIONS_PER_REQUEST = 200
"""A partition may remember thousands of producers."""


class Spec(enum.IntEnum):
    """Special values where a time could stand."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class ListedOffset(NamedTuple):
    offset: int
    """-1 when no record is that young."""
    timestamp_ms: int
    leader_epoch: int


class ActiveProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    """-1 as long as no transaction of the producer has ended here."""
    current_txn_start_offset: int
    """-1 when it has no transaction open here."""

    @property
    def has_open_transaction(self) -> bool:
        return self.current_txn_start_offset != _NO_OFFSET


class Offsets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """Per partition the offset for a ``Spec``, or for the first record not older than a time in ms."""

        async def ask(
            node: int, owned: Sequence[TopicPartition]
        ) -> dict[TopicPartition, ListedOffset | KafkaError]:
            by_topic: dict[str, list[ListOffsetsPartition]] = {}
            for partition in owned:
                by_topic.setdefault(partition.topic, []).append(
                    ListOffsetsPartition(partition_index=partition.partition, timestamp=wanted[partition])
                )
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(read_committed),
                topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
                timeout_ms=30_000,
            )
            response = await self._cluster.node(node, request, ListOffsetsResponse)
            return {
                TopicPartition(topic.name, part.partition_index): (
                    error_of(part.error_code, f"{topic.name}-{part.partition_index}")
                    if part.error_code
                    else ListedOffset(part.offset, part.timestamp, part.leader_epoch)
                )
                for topic in response.topics
                for part in topic.partitions
            }

        return await self._cluster.each_leader(list(wanted), ask)

    async def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Per partition its first offset and the one that the next record will get."""
        wanted = list(partitions)
        first = await self.find(dict.fromkeys(wanted, Spec.EARLIEST))
        following = await self.find(dict.fromkeys(wanted, Spec.LATEST))
        return {partition: (first[partition].offset, following[partition].offset) for partition in wanted}

    async def producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        async def ask(
            node: int, owned: Sequence[TopicPartition]
        ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
            starts = range(0, len(owned), _PARTITIONS_PER_REQUEST)
            found = await asyncio.gather(
                *(self._producers_at(node, owned[at : at + _PARTITIONS_PER_REQUEST]) for at in starts)
            )
            return {partition: answer for part in found for partition, answer in part.items()}

        return await self._cluster.each_leader(list(partitions), ask)

    async def _producers_at(
        self, node: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        by_topic: dict[str, list[int]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=parts) for name, parts in by_topic.items()]
        )
        response = await self._cluster.node(node, request, DescribeProducersResponse)
        return {
            TopicPartition(topic.name, part.partition_index): (
                error_of(part.error_code, part.error_message or f"{topic.name}-{part.partition_index}")
                if part.error_code
                else [
                    ActiveProducer(
                        state.producer_id,
                        state.producer_epoch,
                        state.last_sequence,
                        state.last_timestamp,
                        state.coordinator_epoch,
                        state.current_txn_start_offset,
                    )
                    for state in part.active_producers
                ]
            )
            for topic in response.topics
            for part in topic.partitions
        }
