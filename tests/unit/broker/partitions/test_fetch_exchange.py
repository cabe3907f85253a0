"""Back-to-back fetches on one connection, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ruslo.broker.partitions.fetch_exchange import FetchExchange
from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.net.channel import Channel
from ruslo.net.errors import ConnectionLost, RequestTimedOut
from ruslo.protocol.message import Message
from ruslo.protocol.messages.fetch_request import FetchRequest
from ruslo.protocol.messages.fetch_response import FetchResponse
from tests.support.brokers.live_node import until
from tests.support.brokers.scripted_broker import ReceivedRequest, Script, ScriptedBroker

VERSION = 18


class Fetcher:
    """A fetcher that numbers its requests by session epoch and keeps the session ids of the responses."""

    def __init__(self, responses: int) -> None:
        self._responses = responses
        self.sent = 0
        self.session_ids: list[int] = []
        self.tasks: set[asyncio.Task[object] | None] = set()
        """The tasks that received responses."""

    def write_request(self, out: bytearray) -> None:
        self.sent += 1
        FetchRequest(session_epoch=self.sent).write(out, VERSION)

    def on_response(self, frame: ReadBuffer, pos: int) -> bool:
        self.session_ids.append(FetchResponse.from_bytes(memoryview(frame)[pos:], VERSION).session_id)
        self.tasks.add(asyncio.current_task())
        return len(self.session_ids) < self._responses


def with_leader(script: Script, use: Callable[[Channel, ScriptedBroker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30), ScriptedBroker(script) as broker:
            connection = await Channel.open("127.0.0.1", broker.port)
            try:
                await use(connection, broker)
            finally:
                await connection.close()

    asyncio.run(run())


def respond_by_epoch(received: ReceivedRequest) -> Message:
    if not isinstance(received.message, FetchRequest):
        raise KeyError
    return FetchResponse(session_id=100 + received.message.session_epoch)


async def silence(received: ReceivedRequest) -> Message:
    if not isinstance(received.message, FetchRequest):
        raise KeyError
    await asyncio.Event().wait()
    raise AssertionError


def exchange(connection: Channel, fetcher: Fetcher, timeout_ms: int = 30_000) -> FetchExchange:
    return FetchExchange(connection, VERSION, timeout_ms, fetcher.write_request, fetcher.on_response)


def test_next_request_is_sent_from_the_callback_of_the_response() -> None:
    async def use(connection: Channel, _: ScriptedBroker) -> None:
        fetcher = Fetcher(responses=5)
        await exchange(connection, fetcher).run()
        assert fetcher.session_ids == [101, 102, 103, 104, 105]
        assert fetcher.sent == 5
        assert fetcher.tasks == {None}
        await exchange(connection, fetcher).run()
        assert fetcher.sent == 6, "the connection can be used again"

    with_leader(respond_by_epoch, use)


def test_an_error_in_the_callback_is_raised_by_run() -> None:
    async def use(connection: Channel, _: ScriptedBroker) -> None:
        class Failing(Fetcher):
            def on_response(self, frame: ReadBuffer, pos: int) -> bool:
                raise ValueError("it cannot be appended")

        with pytest.raises(ValueError, match="cannot be appended"):
            await exchange(connection, Failing(1)).run()
        assert not connection.closed

    with_leader(respond_by_epoch, use)


def test_an_invalid_response_closes_the_connection() -> None:
    async def use(connection: Channel, _: ScriptedBroker) -> None:
        class Strict(Fetcher):
            def on_response(self, frame: ReadBuffer, pos: int) -> bool:
                raise ProtocolError("an invalid response")

        with pytest.raises(ConnectionLost, match="an invalid response"):
            await exchange(connection, Strict(1)).run()
        assert connection.closed

    with_leader(respond_by_epoch, use)


def test_a_leader_that_does_not_respond_times_out() -> None:
    async def use(connection: Channel, _: ScriptedBroker) -> None:
        with pytest.raises(RequestTimedOut, match="did not respond to Fetch within 20 ms"):
            await exchange(connection, Fetcher(1), timeout_ms=20).run()
        assert connection.closed
        assert not connection.lost, "a silent leader does not count as lost"

    with_leader(silence, use)


def test_a_lost_connection_ends_the_exchange() -> None:
    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        running = asyncio.create_task(exchange(connection, Fetcher(1)).run())
        await until(lambda: bool(broker.requests_of(FetchRequest.API_KEY)))
        broker.hang_up()
        with pytest.raises(ConnectionLost):
            await running
        assert connection.lost

    with_leader(silence, use)


def test_responses_after_a_cancellation_are_ignored() -> None:
    async def use(connection: Channel, broker: ScriptedBroker) -> None:
        respond = asyncio.Event()

        async def late(received: ReceivedRequest) -> Message:
            response = respond_by_epoch(received)
            await respond.wait()
            return response

        broker.script = late
        fetcher = Fetcher(5)
        running = asyncio.create_task(exchange(connection, fetcher).run())
        await until(lambda: bool(broker.requests_of(FetchRequest.API_KEY)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        respond.set()
        second = Fetcher(1)
        await exchange(connection, second).run()
        assert (fetcher.session_ids, second.session_ids) == ([], [101])

    with_leader(respond_by_epoch, use)
