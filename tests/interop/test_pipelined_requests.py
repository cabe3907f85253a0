"""Requests that are pipelined behind a waiting one are processed after it, as in Apache Kafka."""

from __future__ import annotations

import asyncio

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse
from tests.interop.conftest import TopicMaker
from tests.support.brokers.live_node import batch_of
from tests.support.clients.raw_client import RawClient, connected

FETCH_BY_NAME = 12
PRODUCE_BY_NAME = 12
LIST_OFFSETS = 7
MAX_WAIT_MS = 20_000


async def test_list_offsets_behind_a_waiting_fetch_is_not_older_than_its_records(
    bootstrap: str, new_topic: TopicMaker
) -> None:
    topic = new_topic(partitions=1)
    requested = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[requested])],
    )
    end = ListOffsetsPartition(partition_index=0, timestamp=-1)
    ends = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[end])])
    data = PartitionProduceData(index=0, records=batch_of(b"a"))
    produce = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])

    async def end_of(client: RawClient) -> int:
        response = await client.call(ends, ListOffsetsResponse, LIST_OFFSETS)
        return response.topics[0].partitions[0].offset

    async with connected(bootstrap) as consumer, connected(bootstrap) as producer:
        # Apache Kafka's broker learns of a new topic a moment later.
        while await end_of(producer) != 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        consumer.send(fetch, FETCH_BY_NAME)
        consumer.send(ends, LIST_OFFSETS)
        produced = await producer.call(produce, ProduceResponse, PRODUCE_BY_NAME)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        fetched = (await consumer.receive(FetchResponse)).responses[0].partitions[0]
        assert fetched.high_watermark == 1
        listed = await consumer.receive(ListOffsetsResponse)
        assert listed.topics[0].partitions[0].offset == 1
