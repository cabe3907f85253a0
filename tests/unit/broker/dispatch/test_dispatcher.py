"""From frame to response: headers, versions, malformed requests, handler errors."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruslo.broker.dispatch.api_table import HANDLERS, broker_apis, controller_apis
from ruslo.broker.dispatch.dispatcher import Dispatcher, ServedApi
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.apis import API_BY_KEY, API_BY_NAME
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ruslo.protocol.messages.delete_records_response import DeleteRecordsResponse
from ruslo.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ruslo.protocol.messages.describe_cluster_response import DescribeClusterResponse
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.protocol.messages.metadata_response import MetadataResponse
from ruslo.protocol.messages.produce_request import ProduceRequest
from ruslo.protocol.messages.produce_response import ProduceResponse
from tests.support.brokers.live_node import LiveNode, batch_of, live_node, run
from tests.support.clients.raw_client import connected, frame, request_bytes

API_VERSIONS = 18


TELEMETRY = {71, 72}
"""They are announced while there is a subscription."""


def supported_apis(node: LiveNode) -> dict[int, ServedApi]:
    """The API table of the node's own dispatcher."""
    handle_frame: Any = node.node._broker_server.frame_handler
    dispatcher = handle_frame.__self__
    assert isinstance(dispatcher, Dispatcher)
    return dispatcher._served


def replace_handler(node: LiveNode, name: str, handle: Callable[..., Any]) -> None:
    api = API_BY_NAME[name]
    supported_apis(node)[api.key] = ServedApi(api, handle)


async def test_every_version_of_every_api_gets_a_response(tmp_path: Path) -> None:
    """An empty request of each API in each version gets a response in that version's format, or an error."""
    async with live_node(tmp_path) as node:
        for row in supported_apis(node).values():
            for version in range(row.api.min_version, row.api.max_version + 1):
                async with connected(node.bootstrap) as client:
                    request = row.api.request()
                    if isinstance(request, ProduceRequest):
                        request.acks = 1
                    response = await client.call(request, row.api.response, version)
                    assert response is not None


async def test_announced_versions_are_the_supported_ones(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        response = await client.call(
            ApiVersionsRequest(client_software_name="test", client_software_version="1"),
            ApiVersionsResponse,
        )
        announced = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        assert set(announced) == set(supported_apis(node)) - TELEMETRY
        for api_key, span in announced.items():
            api = API_BY_KEY[api_key]
            # Kafka announces Produce from version 0 for old clients and rejects versions 0 to 2.
            first = 0 if api.name == "Produce" else api.min_version
            assert span == (first, api.max_version), api.name


def test_api_tables() -> None:
    class Hot:
        def handle(self, *arguments: object) -> None: ...

    broker = broker_apis(Hot(), Hot())
    assert {row.api.name for row in broker.values()} == {*HANDLERS, "Produce", "Fetch"}
    assert all("broker" in row.api.listeners for row in broker.values())
    controller = {row.api.name for row in controller_apis().values()}
    assert {"ApiVersions", "DescribeQuorum", "CreateTopics"} <= controller
    assert "Metadata" not in controller


@pytest.mark.parametrize("version", [6, 99, -1, 32767])
async def test_unknown_version_of_api_versions_gets_a_response_in_version_0(
    tmp_path: Path, version: int
) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        client.send_bytes(frame(struct.pack(">hhih", API_VERSIONS, version, 77, -1) + b"future bytes"))
        body = await client.read_frame()
        assert struct.unpack_from(">i", body)[0] == 77
        response = ApiVersionsResponse.from_bytes(body[4:], 0)
        assert ErrorCode(response.error_code) is ErrorCode.UNSUPPORTED_VERSION
        assert {each.api_key for each in response.api_keys} == set(supported_apis(node)) - TELEMETRY
        # The client continues on the same connection, in a version from the response.
        retried = await client.call(ApiVersionsRequest(), ApiVersionsResponse, 2)
        assert retried.error_code == 0


INVALID_FRAMES = {
    "empty": (b"", "too short"),
    "half a header": (struct.pack(">hhi", API_VERSIONS, 0, 1), "too short"),
    "unknown API": (struct.pack(">hhih", 4, 0, 1, -1), "API key 4"),
    "negative API": (struct.pack(">hhih", -1, 0, 1, -1), "API key -1"),
    "version too new": (struct.pack(">hhih", 3, 99, 1, -1), "Metadata v99"),
    "version too old": (struct.pack(">hhih", 1, 3, 1, -1), "Fetch v3"),
    "negative version": (struct.pack(">hhih", 3, -1, 1, -1), "Metadata v-1"),
    "client id too long": (struct.pack(">hhih", 3, 1, 1, 500) + b"short", "client id"),
    "client id of negative length": (struct.pack(">hhih", 3, 1, 1, -2) + bytes(4), "client id"),
    "no header tags": (struct.pack(">hhih", 3, 12, 1, -1), "header is truncated"),
    "truncated header tags": (struct.pack(">hhih", 3, 12, 1, -1) + b"\x02\x00\x05ab", "header"),
    "endless header tags": (struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\xff\xff", "header"),
    "truncated body": (request_bytes(MetadataRequest(), 1)[:-2], "malformed Metadata request v1"),
    "garbage body": (struct.pack(">hhih", 19, 2, 1, -1) + b"\xde\xad\xbe\xef" * 9, "malformed CreateTopics"),
    "garbage in Produce": (struct.pack(">hhih", 0, 9, 1, -1) + b"\x00" + b"\xff" * 40, "Produce"),
    "garbage in Fetch": (struct.pack(">hhih", 1, 12, 1, -1) + b"\x00" + b"\xff" * 40, "Fetch"),
    "Produce of version 2": (struct.pack(">hhih", 0, 2, 1, -1) + bytes(20), "Produce"),
}


@pytest.mark.parametrize("name", INVALID_FRAMES)
async def test_invalid_request_closes_its_connection_and_is_logged_once(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    body, reason = INVALID_FRAMES[name]
    async with (
        live_node(tmp_path) as node,
        connected(node.bootstrap) as invalid,
        connected(node.bootstrap) as valid,
    ):
        caplog.clear()
        invalid.send(MetadataRequest(topics=[]), 1)
        invalid.send_bytes(frame(body) + frame(request_bytes(MetadataRequest(), 1)))
        # The response to the previous request is sent, then the connection is closed.
        await invalid.receive(MetadataResponse)
        assert await invalid.read_to_the_end() == b""
        warnings = [each.getMessage() for each in caplog.records]
        assert len(warnings) == 1, warnings
        assert reason in warnings[0]
        assert caplog.records[0].__dict__["ids"]["connection"].startswith("127.0.0.1:")
        assert (await valid.call(DescribeClusterRequest(), DescribeClusterResponse)).error_code == 0


async def test_unknown_tags_in_the_header_are_skipped(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        plain = request_bytes(DescribeClusterRequest(), 0, client_id=None)
        for count, tags in ((1, b"\x07\x03abc"), (2, b"\x07\x00\x09\x01x")):
            client.send_bytes(frame(plain[:10] + bytes([count]) + tags + plain[11:]))
            body = await client.read_frame()
            assert DescribeClusterResponse.from_bytes(body[5:], 0).error_code == 0
        many = b"".join(bytes([number | 0x80, 1, 0]) for number in range(128))
        client.send_bytes(frame(plain[:10] + b"\x80\x01" + many + plain[11:]))
        body = await client.read_frame()
        assert DescribeClusterResponse.from_bytes(body[5:], 0).error_code == 0


async def test_trailing_bytes_are_ignored(tmp_path: Path) -> None:
    """Kafka ignores them, too: librdkafka's Metadata v13 has three extra bytes."""
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        client.send_bytes(frame(request_bytes(DescribeClusterRequest(), 0) + b"!!!"))
        body = await client.read_frame()
        assert DescribeClusterResponse.from_bytes(body[5:], 0).error_code == 0


async def test_handler_errors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def raise_kafka_error(*_: object) -> None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "not today")

    def fail(*_: object) -> None:
        raise ZeroDivisionError("our own fault")

    async def fail_later(*_: object) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("our own fault")

    async def raise_kafka_error_later(*_: object) -> None:
        await asyncio.sleep(0)
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "not today")

    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        for handle, code in (
            (raise_kafka_error, ErrorCode.POLICY_VIOLATION),
            (raise_kafka_error_later, ErrorCode.POLICY_VIOLATION),
            (fail, ErrorCode.UNKNOWN_SERVER_ERROR),
            (fail_later, ErrorCode.UNKNOWN_SERVER_ERROR),
        ):
            caplog.clear()
            replace_handler(node, "DescribeCluster", handle)
            response = await client.call(DescribeClusterRequest(), DescribeClusterResponse)
            assert ErrorCode(response.error_code) is code
            assert response.error_message
            failures = [each for each in caplog.records if each.levelname == "ERROR"]
            assert len(failures) == (code is ErrorCode.UNKNOWN_SERVER_ERROR)
            assert all(each.exc_info for each in failures)

        # If a response has no error field, the connection is closed instead.
        for handle in (fail, fail_later):
            replace_handler(node, "ListOffsets", handle)
            async with connected(node.bootstrap) as other:
                other.send(ListOffsetsRequest(), 5)
                assert await other.read_to_the_end() == b""


def test_response_that_cannot_be_encoded_closes_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
            replace_handler(
                node, "DescribeCluster", lambda *_: DescribeClusterResponse(cluster_id="x" * 2**17)
            )
            client.send(DescribeClusterRequest(), 0)
            assert await client.read_to_the_end() == b""

    run(scenario())
    assert "the DescribeCluster v0 response cannot be encoded" in caplog.text


async def test_slow_responses_keep_their_order(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def slow(*_: object) -> DescribeClusterResponse:
        await release.wait()
        return DescribeClusterResponse(cluster_id="slow")

    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        replace_handler(node, "DescribeCluster", slow)
        client.send(DescribeClusterRequest(), 0)
        client.send(MetadataRequest(topics=[]), 1)
        client.send(node.produce_request({("t", 0): batch_of(b"a")}), 9)
        async with connected(node.bootstrap) as other:
            # Other connections do not wait for it.
            await other.call(MetadataRequest(topics=[]), MetadataResponse, 1)
        release.set()
        assert (await client.receive(DescribeClusterResponse)).cluster_id == "slow"
        assert (await client.receive(MetadataResponse)).brokers
        assert (await client.receive(ProduceResponse)).responses[0].partition_responses[0].error_code == 0


async def test_request_sees_the_effects_of_the_previous_one(tmp_path: Path) -> None:
    """Clients pipeline: Kafka processes one request of a connection at a time, so none overtakes another."""
    created = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    deleted = DeleteRecordsPartition(partition_index=0, offset=2)
    start = ListOffsetsPartition(partition_index=0, timestamp=-2)
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        client.send(CreateTopicsRequest(topics=[created], timeout_ms=10_000))
        client.send(node.produce_request({("t", 0): batch_of(b"a", b"b", b"c")}), 9)
        client.send(
            DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name="t", partitions=[deleted])], timeout_ms=10_000
            )
        )
        client.send(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[start])]))
        assert (await client.receive(CreateTopicsResponse)).topics[0].error_code == 0
        produced = await client.receive(ProduceResponse)
        assert produced.responses[0].partition_responses[0].error_code == 0
        response = await client.receive(DeleteRecordsResponse)
        assert response.topics[0].partitions[0].low_watermark == 2
        assert (await client.receive(ListOffsetsResponse)).topics[0].partitions[0].offset == 2


async def test_client_id_may_have_any_bytes(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        body = request_bytes(MetadataRequest(topics=[]), 1, client_id=None)[10:]
        client.send_bytes(frame(struct.pack(">hhih", 3, 1, 5, 4) + b"\xff\xfe\x00a" + body))
        assert struct.unpack_from(">i", await client.read_frame())[0] == 5


async def test_request_that_exceeds_its_frame_is_malformed(tmp_path: Path) -> None:
    """Frames are adjacent in the receive buffer; none may be read past its end."""
    async with live_node(tmp_path) as node:
        await node.create()
        produce = request_bytes(node.produce_request({("t", 0): batch_of(b"stolen")}), 9)
        topics = request_bytes(CreateTopicsRequest(timeout_ms=1), 7)
        for body in (produce, topics):
            for missing_bytes in range(1, len(body)):
                if missing_bytes % 7 and missing_bytes > 30:
                    continue
                async with connected(node.bootstrap) as client:
                    # The stream has the whole request, but the length prefix covers only part of it.
                    client.send_bytes(struct.pack(">i", len(body) - missing_bytes) + body)
                    assert await client.read_to_the_end() == b""
        assert node.partition().log.end_offset == 0
