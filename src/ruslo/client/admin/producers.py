"""Active producers of partitions, as their leaders know them (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ruslo.client.wire.by_topic import indexes_by_topic
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import error_of
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ruslo.protocol.messages.describe_producers_response import DescribeProducersResponse

_NO_OFFSET = -1
_PARTITIONS_PER_REQUEST = 200
"""This bounds the response: a partition may remember thousands of producers."""


class ActiveProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    """-1 until a transaction of the producer has ended in this partition."""
    current_txn_start_offset: int
    """-1 when the producer has no open transaction in this partition."""

    @property
    def has_open_transaction(self) -> bool:
        return self.current_txn_start_offset != _NO_OFFSET


class Producers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        async def query(
            node: int, owned: Sequence[TopicPartition]
        ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
            starts = range(0, len(owned), _PARTITIONS_PER_REQUEST)
            found = await asyncio.gather(
                *(self._describe_at(node, owned[at : at + _PARTITIONS_PER_REQUEST]) for at in starts)
            )
            return {partition: result for part in found for partition, result in part.items()}

        return await self._cluster.each_leader(list(partitions), query)

    async def _describe_at(
        self, node: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name=name, partition_indexes=indexes)
                for name, indexes in indexes_by_topic(partitions).items()
            ]
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
