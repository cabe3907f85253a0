"""The cost of one request is bounded for every API: it is rejected before decoding or served in slices."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ruslo.broker.dispatch.api_table import CONTROLLER_HANDLERS, HANDLERS
from ruslo.broker.requests.bounds import INLINE_BYTES, INLINE_ELEMENTS, bound_of
from ruslo.broker.requests.parts import DIVISIONS, merge, parts_of
from ruslo.model.errors import ErrorCode, ProtocolError
from ruslo.protocol.apis import API_BY_NAME
from ruslo.protocol.flat_reader import MAX_ELEMENTS
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ruslo.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ruslo.protocol.messages.metadata_response import MetadataResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.compression import Codec
from tests.support.brokers.live_node import batch_of, live_node
from tests.support.clients.raw_client import connected, frame, request_bytes
from tests.support.protocol.expensive_requests import Expensive, expensive_requests

MAX_STEPS = 400_000
"""The number of function calls in one callback of the event loop that a request may cause: about 50 ms."""
MAX_BLOCKS = 4_000_000
"""The number of memory blocks that a request may allocate: about 300 MB."""
SEED = 20
PARTS = 4


def test_every_api_has_a_bound() -> None:
    for name in set(HANDLERS) | set(CONTROLLER_HANDLERS):
        assert 0 < bound_of(name).max_elements <= 50_000
    assert set(DIVISIONS) <= set(HANDLERS)
    for name, divisions in DIVISIONS.items():
        for division in divisions:
            assert division.request_array in API_BY_NAME[name].request.__slots__
            assert division.response_array in API_BY_NAME[name].response.__slots__


class TestDecoding:
    def test_elements_of_all_arrays_count_together(self) -> None:
        request = ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition() for _ in range(9)])
                for _ in range(10)
            ]
        )
        body = request.to_bytes(11)
        assert ListOffsetsRequest.read_bounded(body, 11, 100) == (request, 100)
        with pytest.raises(ProtocolError, match="too many array elements"):
            ListOffsetsRequest.read_bounded(body, 11, 99)
        # The limit applies to one request.
        assert ListOffsetsRequest.from_bytes(body, 11) == request

    def test_tagged_fields_count_too(self) -> None:
        request = DescribeGroupsRequest(unknown_tags=dict.fromkeys(range(500), b""))
        with pytest.raises(ProtocolError, match="too many array elements"):
            DescribeGroupsRequest.read_bounded(request.to_bytes(5), 5, 100)


class TestChunks:
    def test_topics_are_divided_and_merged(self) -> None:
        request = ListOffsetsRequest(
            isolation_level=1,
            topics=[
                ListOffsetsTopic(name="a", partitions=[ListOffsetsPartition(partition_index=1)]),
                ListOffsetsTopic(
                    name="b", partitions=[ListOffsetsPartition(partition_index=at) for at in range(120)]
                ),
                ListOffsetsTopic(name="c", partitions=[]),
            ],
        )
        found = parts_of("ListOffsets", request)
        assert found is not None
        division, chunks = found
        sizes = []
        responses = []
        for chunk in chunks:
            assert isinstance(chunk, ListOffsetsRequest)
            assert chunk.isolation_level == 1
            sizes.append(sum(len(topic.partitions) for topic in chunk.topics))
            # This request and its response have the same format.
            responses.append(ListOffsetsRequest(topics=chunk.topics))
        assert max(sizes) <= division.size
        merged = merge(division, responses)
        assert isinstance(merged, ListOffsetsRequest)
        assert merged.topics == request.topics

    def test_only_the_first_chunk_creates_topics(self) -> None:
        names = [MetadataRequestTopic(name=f"n{at}") for at in range(1000)]
        found = parts_of("Metadata", MetadataRequest(topics=names))
        assert found is not None
        allowed = [chunk.allow_auto_topic_creation for chunk in found[1]]  # type: ignore[attr-defined]
        assert allowed == [True, False, False, False]

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("ConsumerGroupDescribe", "group_ids"),
            ("DeleteGroups", "groups_names"),
            ("DescribeGroups", "groups"),
            ("DescribeTransactions", "transactional_ids"),
            ("ShareGroupDescribe", "group_ids"),
            ("StreamsGroupDescribe", "group_ids"),
        ],
    )
    def test_a_group_that_is_named_often_is_described_once(self, name: str, array: str) -> None:
        found = parts_of(name, API_BY_NAME[name].request(**{array: ["g", "h", "g"] * 1000}))
        assert found is not None
        assert [getattr(chunk, array) for chunk in found[1]] == [["g", "h"]]

    def test_all_offsets_of_a_share_group_are_described_once(self) -> None:
        of_topic = DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
        groups = [
            *(DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None) for _ in range(100)),
            *(DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[of_topic]) for _ in range(2)),
        ]
        found = parts_of("DescribeShareGroupOffsets", DescribeShareGroupOffsetsRequest(groups=groups))
        assert found is not None
        (chunk,) = found[1]
        assert isinstance(chunk, DescribeShareGroupOffsetsRequest)
        assert [each.topics for each in chunk.groups] == [None, [of_topic], [of_topic]]


class TestResponses:
    async def test_many_elements_get_results_in_order(self, tmp_path: Path) -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            await node.create("t", partitions=2)
            keys = [f"group-{at}" for at in range(3000)]
            result = await client.call(FindCoordinatorRequest(coordinator_keys=keys), FindCoordinatorResponse)
            assert [each.key for each in result.coordinators] == keys
            groups = await client.call(DescribeGroupsRequest(groups=keys), DescribeGroupsResponse)
            assert sorted(each.group_id for each in groups.groups) == sorted(keys)
            topics = [MetadataRequestTopic(name=name) for name in ["t", *keys]]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            metadata = await client.call(request, MetadataResponse)
            assert [each.name for each in metadata.topics] == ["t", *keys]
            assert len(metadata.topics[0].partitions) == 2
            partitions = [ListOffsetsPartition(partition_index=at, timestamp=-2) for at in range(5000)]
            requested = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)])
            offsets = await client.call(requested, ListOffsetsResponse)
            assert [each.name for each in offsets.topics] == ["t"]
            found = offsets.topics[0].partitions
            assert [each.partition_index for each in found] == list(range(5000))
            assert [each.error_code for each in found[:2]] == [0, 0]

    async def test_requests_behind_a_large_one_wait_for_it(self, tmp_path: Path) -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            client.send(DescribeGroupsRequest(groups=[f"a-longer-name-{at}" for at in range(2000)]))
            client.send(MetadataRequest(topics=[]))
            assert len((await client.receive(DescribeGroupsResponse)).groups) == 2000
            await client.receive(MetadataResponse)

    @pytest.mark.parametrize(
        "request_",
        [
            DescribeGroupsRequest(groups=[""] * 100_001),
            CreateTopicsRequest(topics=[], unknown_tags={1: bytes(9_000_000)}),
            FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()] * (MAX_ELEMENTS + 1))]),
            ProduceRequest(
                topic_data=[
                    TopicProduceData(
                        name="t", partition_data=[PartitionProduceData(records=b"")] * (MAX_ELEMENTS + 1)
                    )
                ]
            ),
        ],
        ids=["elements", "bytes", "Fetch", "Produce"],
    )
    async def test_request_beyond_the_bound_closes_the_connection(
        self, request_: Any, tmp_path: Path
    ) -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            version = {0: 9, 1: 12, 15: 6, 19: 7}[request_.API_KEY]
            client.writer.write(frame(request_bytes(request_, version)))
            assert await client.reader.read() == b""
            async with connected(node.bootstrap) as other:
                await other.call(MetadataRequest(topics=[]), MetadataResponse)


class TestRecords:
    """Batches of a compacted topic, whose records have to be decoded."""

    @pytest.mark.parametrize("transactional", [False, True])
    async def test_large_batch_keeps_its_position(self, transactional: bool, tmp_path: Path) -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            await node.create("t", cleanup_policy="compact")
            large = batch_of(*[b"v"] * 20_000, key=b"k", codec=Codec.ZSTD)
            small = batch_of(b"v", key=b"k")
            batches = (small, large, small, large, small)
            for batch in batches:
                request = node.produce_request(
                    {("t", 0): batch}, transactional_id="tx" if transactional else None
                )
                client.send(request, 9)
            offsets = []
            for _ in batches:
                response: Any = await client.receive(API_BY_NAME["Produce"].response)
                result = response.responses[0].partition_responses[0]
                assert result.error_code == 0
                offsets.append(result.base_offset)
            assert offsets == [0, 1, 20_001, 20_002, 40_002]

    async def test_large_batch_that_begins_a_transaction(self, tmp_path: Path) -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            await node.create("t", partitions=2, cleanup_policy="compact", compression_type="lz4")
            find = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
            await client.call(find, FindCoordinatorResponse)
            init = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
            producer = await client.call(init, InitProducerIdResponse)
            assert producer.error_code == 0
            settings: dict[str, Any] = {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "attributes": TRANSACTIONAL,
                "codec": Codec.GZIP,
            }
            large = batch_of(*[b"v"] * 20_000, key=b"k", base_sequence=0, **settings)
            next_one = batch_of(b"v", key=b"k", base_sequence=20_000, **settings)
            no_key = batch_of(*[b"v"] * 20_000, base_sequence=0, **settings)
            offsets = []
            codes = []
            for batches in ({("t", 0): large, ("t", 1): no_key}, {("t", 0): next_one}):
                client.send(node.produce_request(batches, transactional_id="tx"), 12)
            for _ in range(2):
                response: Any = await client.receive(API_BY_NAME["Produce"].response)
                results = [topic.partition_responses[0] for topic in response.responses]
                offsets.append(results[0].base_offset)
                codes += [result.error_code for result in results]
            assert offsets == [0, 20_000]
            assert codes == [ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.NONE]

    async def test_decompression_bomb_is_rejected_and_the_rest_of_the_request_appended(
        self, tmp_path: Path
    ) -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            await node.create("t", partitions=2, cleanup_policy="compact")
            bomb = batch_of(bytes(140_000_000), key=b"k", codec=Codec.ZSTD)
            assert len(bomb) < 100_000
            request = node.produce_request({("t", 0): bomb, ("t", 1): batch_of(b"v", key=b"k")})
            response: Any = await client.call(request, API_BY_NAME["Produce"].response, 9)
            codes = [topic.partition_responses[0].error_code for topic in response.responses]
            assert codes == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE]


class Costs:
    """Counts the work of the event loop's thread in each callback, and the memory allocated in between."""

    def __init__(self) -> None:
        self.most_steps = 0
        self.most_blocks = 0
        self._steps = 0
        self._blocks_before = sys.getallocatedblocks()

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is asyncio.Handle._run.__code__:
            self._steps = 0
        elif event in ("call", "c_call"):
            self._steps += 1
            self.most_steps = max(self.most_steps, self._steps)
            if self._steps % 1000 == 0:
                self.most_blocks = max(self.most_blocks, sys.getallocatedblocks() - self._blocks_before)

    @contextmanager
    def counted(self) -> Iterator[None]:
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)


@pytest.mark.stdlib_loop
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_request_exceeds_its_bound_of_steps_or_memory(tmp_path: Path, part: int) -> None:
    """The most expensive requests of every API that a seed finds; ``SEED`` may be any number.

    uvloop's callbacks cannot be distinguished, so this runs on asyncio's own loop.
    """

    async with live_node(tmp_path) as node:
        await node.create("t", partitions=3)
        for each in islice(expensive_requests(SEED, per_api=1), part, None, PARTS):
            costs = Costs()
            with costs.counted():
                await _send(node.bootstrap, each)
            assert costs.most_steps <= MAX_STEPS, str(each)
            assert costs.most_blocks <= MAX_BLOCKS, str(each)


FEW_TOPICS = [
    FetchTopic(topic="t", partitions=[FetchPartition(partition=at) for at in range(MAX_ELEMENTS - 1)])
]
MANY_TOPICS = [
    FetchTopic(topic=f"t{at}", partitions=[FetchPartition(partition=0)]) for at in range(MAX_ELEMENTS // 2)
]
FEW_PRODUCED = [
    TopicProduceData(
        name="t",
        partition_data=[PartitionProduceData(index=at, records=b"") for at in range(MAX_ELEMENTS - 1)],
    )
]
MANY_PRODUCED = [
    TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch_of(b"v"))])
    for at in range(MAX_ELEMENTS // 2)
]


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (FetchRequest(topics=FEW_TOPICS, session_epoch=0), 12),
        (FetchRequest(topics=FEW_TOPICS), 4),
        (FetchRequest(topics=MANY_TOPICS), 12),
        (ProduceRequest(acks=1, timeout_ms=1000, topic_data=FEW_PRODUCED), 9),
        (ProduceRequest(acks=1, timeout_ms=1000, topic_data=MANY_PRODUCED), 3),
        (ProduceRequest(acks=1, timeout_ms=1000, topic_data=MANY_PRODUCED, transactional_id="x"), 9),
    ],
    ids=["session", "partitions", "topics", "no records", "records", "transactional"],
)
async def test_largest_produce_and_fetch_requests(request_: Any, version: int, tmp_path: Path) -> None:
    async with live_node(tmp_path) as node:
        await node.create("t", partitions=3)
        costs = Costs()
        body = request_.to_bytes(version)
        name = "Fetch" if isinstance(request_, FetchRequest) else "Produce"
        with costs.counted():
            await _send(node.bootstrap, Expensive(name, version, "", "", "", "", body))
        assert costs.most_steps <= MAX_STEPS
        assert costs.most_blocks <= MAX_BLOCKS


async def _send(bootstrap: str, request: Expensive) -> None:
    """Send the request and wait for the first byte of the response or the end of the connection."""
    api = API_BY_NAME[request.api]
    head = api.key.to_bytes(2, "big") + request.version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    if request.version >= api.flexible_from:
        head += b"\0"
    async with connected(bootstrap) as client:
        client.writer.write(frame(head + request.body))
        await client.reader.read(1)


def test_requests_decoded_at_once_are_small() -> None:
    for each in expensive_requests(SEED, per_api=1):
        if each.size == "inline":
            assert len(each.body) <= INLINE_BYTES
    assert INLINE_ELEMENTS < INLINE_BYTES
