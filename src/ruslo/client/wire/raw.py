"""Produces and fetches whole record batches, as they are on the wire and on disk, without decoding them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ruslo.client.wire.by_topic import by_topic
from ruslo.client.wire.cluster import Cluster
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import error_of, result_of
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.fetch_response import PartitionData as FetchedPartition
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse

_FETCH_TOPIC_ID_VERSION = 13
_PRODUCE_TOPIC_ID_VERSION = 13
_CLOSED_SESSION_EPOCH = -1


class Produced(NamedTuple):
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class FetchedBatches(NamedTuple):
    records: ReadBuffer
    """Record batches; the first may start before the fetch offset, the last may be incomplete."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]


class RawClient:
    """Splits requests by leader and retries retriable errors.

    A retried produce may append a batch twice unless the batch has a producer id and sequence.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def produce(
        self,
        batches: Mapping[TopicPartition, ReadBuffer],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
    ) -> dict[TopicPartition, Produced]:
        """Produce one or more consecutive batches per partition; with acks=0 the result has no offsets."""

        async def query(
            node: int, owned: Sequence[TopicPartition]
        ) -> dict[TopicPartition, Produced | KafkaError]:
            return await self.produce_at(
                node,
                {partition: batches[partition] for partition in owned},
                acks=acks,
                timeout_ms=timeout_ms,
                transactional_id=transactional_id,
            )

        return await self._cluster.each_leader(list(batches), query)

    async def produce_at(
        self,
        node: int,
        batches: Mapping[TopicPartition, ReadBuffer],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
        max_version: int | None = None,
    ) -> dict[TopicPartition, Produced | KafkaError]:
        """Send one request to one broker without retries; returns offsets or error by partition."""
        topics = by_topic(
            (tp, PartitionProduceData(index=tp.partition, records=records)) for tp, records in batches.items()
        )
        ids = await self._topic_ids(topics)
        connection = await self._cluster.connection(node)
        version = connection.version_for(ProduceRequest, max_version=max_version)
        by_id = version >= _PRODUCE_TOPIC_ID_VERSION
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(topic_id=ids[name], partition_data=parts)
                if by_id
                else TopicProduceData(name=name, partition_data=parts)
                for name, parts in topics.items()
            ],
        )
        if acks == 0:
            await connection.send_without_response(request)
            return {partition: Produced(-1, -1, -1) for partition in batches}
        response = await connection.request(request, ProduceResponse, max_version=version)
        names = {topic_id: name for name, topic_id in ids.items()}
        return {
            TopicPartition(names[topic.topic_id] if by_id else topic.name, part.index): result_of(
                part.error_code,
                part.error_message,
                Produced(part.base_offset, part.log_append_time_ms, part.log_start_offset),
            )
            for topic in response.responses
            for part in topic.partition_responses
        }

    async def fetch(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        read_committed: bool = False,
    ) -> dict[TopicPartition, FetchedBatches]:
        """Send one fetch to every leader, without a fetch session."""

        async def query(
            node: int, owned: Sequence[TopicPartition]
        ) -> dict[TopicPartition, FetchedBatches | KafkaError]:
            topics = by_topic(
                (
                    tp,
                    FetchPartition(
                        partition=tp.partition,
                        fetch_offset=positions[tp],
                        partition_max_bytes=partition_max_bytes,
                    ),
                )
                for tp in owned
            )
            ids = await self._topic_ids(topics)
            connection = await self._cluster.connection(node)
            by_id = connection.version_for(FetchRequest) >= _FETCH_TOPIC_ID_VERSION
            request = FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                isolation_level=int(read_committed),
                session_epoch=_CLOSED_SESSION_EPOCH,
                topics=[
                    FetchTopic(topic_id=ids[name], partitions=parts)
                    if by_id
                    else FetchTopic(topic=name, partitions=parts)
                    for name, parts in topics.items()
                ],
            )
            response = await connection.request(request, FetchResponse, timeout_ms=max_wait_ms + 30_000)
            if response.error_code:
                raise error_of(response.error_code, f"broker {node} rejected the fetch")
            names = {topic_id: name for name, topic_id in ids.items()}
            return {
                TopicPartition(
                    names[topic.topic_id] if by_id else topic.topic, part.partition_index
                ): _fetched(part)
                for topic in response.responses
                for part in topic.partitions
            }

        return await self._cluster.each_leader(list(positions), query)

    async def _topic_ids(self, names: Mapping[str, object]) -> dict[str, Uuid]:
        return {name: await self._cluster.topic_id(name) for name in names}


def _fetched(part: FetchedPartition) -> FetchedBatches | KafkaError:
    if part.error_code != ErrorCode.NONE:
        return error_of(part.error_code, f"partition {part.partition_index}")
    return FetchedBatches(
        part.records if part.records is not None else b"",
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        tuple(AbortedTransaction(a.producer_id, a.first_offset) for a in part.aborted_transactions or ()),
    )
