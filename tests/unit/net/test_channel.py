from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.net.errors import BrokerUnreachable, ConnectionLost, RequestTimedOut
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.protocol.messages.metadata_response import MetadataResponse
from ruslo.protocol.messages.produce_request import ProduceRequest
from tests.support.brokers.scripted_broker import (
    ReceivedRequest,
    Script,
    ScriptedBroker,
    ScriptedResponse,
    all_versions,
    encode,
)

METADATA = MetadataRequest.API_KEY
QUICK = ChannelSettings(request_timeout_ms=5_000, max_response_bytes=1_000_000)


def with_broker(
    script: Script | None,
    use: Callable[[Channel, ScriptedBroker], Awaitable[None]],
    settings: ChannelSettings = QUICK,
) -> None:
    async def run() -> None:
        async with ScriptedBroker(script) as broker:
            connection = await Channel.open("127.0.0.1", broker.port, settings)
            try:
                await use(connection, broker)
            finally:
                await connection.close()

    asyncio.run(run())


def respond_to_metadata(
    response: Callable[[ReceivedRequest], ScriptedResponse | Awaitable[ScriptedResponse]],
) -> Script:
    return lambda received: {METADATA: response}[received.api_key](received)


def send_metadata(connection: Channel, *, timeout_ms: int | None = None) -> Awaitable[MetadataResponse]:
    return connection.request(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=timeout_ms)


def test_the_highest_common_version_is_used() -> None:
    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        assert (await send_metadata(connection)).cluster_id == "scripted"
        assert broker.requests_of(METADATA)[0].version == 9

    with_broker(lambda received: {18: all_versions({METADATA: (3, 9)})}[received.api_key], use)


def test_no_common_version() -> None:
    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        with pytest.raises(KafkaError, match="supports Metadata v90 to v91") as caught:
            await send_metadata(connection)
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(KafkaError, match="needs v6 to v6"):
            connection.version_for(DeleteTopicsRequest, min_version=6)
        assert connection.version_for(DeleteTopicsRequest) == 5
        del connection.versions[ProduceRequest.API_KEY]
        with pytest.raises(KafkaError, match="does not support Produce"):
            connection.version_for(ProduceRequest)

    with_broker(lambda received: {18: all_versions({METADATA: (90, 91), 20: (1, 5)})}[received.api_key], use)


def test_broker_with_an_old_api_versions_only() -> None:
    def script(received: ReceivedRequest) -> ScriptedResponse:
        if received.api_key != ApiVersionsRequest.API_KEY:
            raise KeyError
        if received.version > 1:
            unsupported = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[ApiVersion(api_key=ApiVersionsRequest.API_KEY, min_version=0, max_version=1)],
            )
            return encode(received, unsupported, version=0)
        return all_versions()

    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        assert [received.version for received in broker.requests_of(ApiVersionsRequest.API_KEY)] == [4, 1]
        await send_metadata(connection)

    with_broker(script, use)


def test_requests_are_pipelined_and_matched() -> None:
    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        responses = await asyncio.gather(*(send_metadata(connection) for _ in range(50)))
        assert len(responses) == 50
        assert broker.connections == 1
        assert len({requested.correlation_id for requested in broker.requests}) == 51

    with_broker(None, use)


def test_a_large_response_is_received_completely() -> None:
    large = MetadataResponse(cluster_id="x" * 30_000)

    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        for _ in range(3):
            assert await send_metadata(connection) == large

    with_broker(respond_to_metadata(lambda received: large), use)


async def test_refused_connection() -> None:
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1 \(connection refused\)"):
        await Channel.open("127.0.0.1", 1)


async def test_unknown_host() -> None:
    with pytest.raises(BrokerUnreachable, match="unknown host name"):
        await Channel.open("no-such-host.invalid", 9092)


def test_closed_connection_fails_all_requests() -> None:
    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        results = await asyncio.gather(*(send_metadata(connection) for _ in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionLost] * 3
        assert connection.closed
        assert connection.lost
        with pytest.raises(ConnectionLost, match="lost 127"):
            await send_metadata(connection)

    with_broker(respond_to_metadata(lambda received: None), use)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("unread", [b"", b"makes it a reset"])
async def test_closed_connection_is_detected_before_the_event_loop_reports_it(
    run: Callable[[Coroutine[Any, Any, None]], None], unread: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        connection = await Channel.open_with_versions(host, port, {})
        peer, _ = listener.accept()
    assert not connection.peer_closed()
    if unread:
        assert connection._transport is not None
        connection._transport.write(unread)
        peer.recv(1)
    peer.close()
    assert (connection.peer_closed(), connection.lost) == (True, False)
    await connection.wait_closed()
    assert (connection.peer_closed(), connection.lost) == (True, True)


def test_channel_closed_locally_was_not_closed_by_the_peer() -> None:
    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        await connection.close()
        assert not connection.peer_closed()

    with_broker(respond_to_metadata(lambda _: MetadataResponse()), use)


def test_a_cancelled_request_does_not_affect_others() -> None:
    requests_of, hold = asyncio.Event(), asyncio.Event()

    async def late(received: ReceivedRequest) -> ScriptedResponse:
        requests_of.set()
        await hold.wait()
        return MetadataResponse(cluster_id="late")

    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        abandoned, other = (asyncio.ensure_future(send_metadata(connection)) for _ in range(2))
        await requests_of.wait()
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        hold.set()
        assert (await other).cluster_id == "late"
        assert not connection.closed

    with_broker(respond_to_metadata(late), use)


async def test_a_request_timeout_closes_the_channel() -> None:
    async def never(received: ReceivedRequest) -> ScriptedResponse:
        await asyncio.sleep(60)
        return None

    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        with pytest.raises(RequestTimedOut, match="did not respond to Metadata within 50 ms"):
            await send_metadata(connection, timeout_ms=50)
        assert connection.closed
        await connection.wait_closed()
        assert not connection.lost, "a silent peer may still run"

    broker = ScriptedBroker(respond_to_metadata(never))
    async with broker:
        connection = await Channel.open("127.0.0.1", broker.port, QUICK)
        await use(connection, broker)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (struct.pack(">i", 2_000_000), "the response size is 2000000 bytes"),
        (struct.pack(">i", -5), "the response size is -5 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "this is HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "this is a TLS alert"),
        (struct.pack(">ii", 4, 12345), "unknown correlation id 12345"),
    ],
)
def test_bytes_that_are_not_a_response(response: bytes, message: str) -> None:
    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        with pytest.raises(ConnectionLost, match=message):
            await send_metadata(connection)

    with_broker(respond_to_metadata(lambda received: response), use)


@pytest.mark.parametrize("tail", [b"", b"\xff" * 20])
def test_a_response_that_cannot_be_decoded(tail: bytes) -> None:
    def garbled(received: ReceivedRequest) -> bytes:
        body = struct.pack(">i", received.correlation_id) + tail
        return struct.pack(">i", len(body)) + body

    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        with pytest.raises(ConnectionLost, match="invalid response"):
            await send_metadata(connection)
        assert connection.closed

    with_broker(respond_to_metadata(garbled), use)


def test_a_response_with_trailing_bytes() -> None:
    def padded(received: ReceivedRequest) -> bytes:
        frame = encode(received, MetadataResponse())
        return struct.pack(">i", len(frame) - 4 + 3) + frame[4:] + b"xyz"

    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        with pytest.raises(ConnectionLost, match="3 bytes follow MetadataResponse"):
            await send_metadata(connection)

    with_broker(respond_to_metadata(padded), use)


def test_request_without_a_response_is_only_sent() -> None:
    silence: list[ScriptedResponse] = [b""]

    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        await connection.send_without_response(MetadataRequest(topics=[]))
        assert (await send_metadata(connection)).cluster_id == "served"
        assert len(broker.requests_of(METADATA)) == 2

    served = MetadataResponse(cluster_id="served")
    with_broker(respond_to_metadata(lambda received: silence.pop() if silence else served), use)
