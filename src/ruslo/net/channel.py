"""One TCP connection to a broker: versions are negotiated, requests pipelined, answers matched."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Mapping
from struct import Struct
from typing import NamedTuple, Protocol, Self, TypeVar

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.net.errors import BrokerUnreachable, ConnectionLost, RequestTimedOut
from ruslo.net.frames import FrameProtocol
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.headers import read_response_header, write_request_header
from ruslo.protocol.message import Message
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse

R = TypeVar("R", bound=Message)

_SIZE = Struct(">i")
_INT16 = Struct(">h")
_CLIENT_VERSION = "0.1.0"


class ChannelSettings(NamedTuple):
    client_id: str = "ruslo"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    max_response_bytes: int = 256 * 1024 * 1024


class Waiter(Protocol):
    """Who waits for one answer. A future of asyncio is one; others are called while the answer is read."""

    def done(self) -> bool:
        """Nobody wants to hear of it any more."""
        ...

    def set_result(self, frame: ReadBuffer, /) -> None: ...

    def set_exception(self, error: KafkaError, /) -> None: ...


class Channel:
    """Made by ``open``. Any fault (time-out, garbage, a closed peer) ends it; the owner opens another."""

    def __init__(self, host: str, port: int, settings: ChannelSettings) -> None:
        self.host = host
        self.port = port
        self.versions: dict[int, tuple[int, int]] = {}
        """What the broker offers, by API key."""
        self.api_versions: ApiVersionsResponse | None = None
        self._settings = settings
        self._frames = FrameProtocol(settings.max_response_bytes, self._frame_received, self._lost)
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, Waiter] = {}
        self._next_correlation_id = 0
        self._closed: KafkaError | None = None
        self.lost = False
        """Ended by the other side, not by us, nor for want of an answer."""
        self._gone = asyncio.Event()

    @classmethod
    async def open(cls, host: str, port: int, settings: ChannelSettings | None = None) -> Self:
        """Connect and learn the broker's versions; raises BrokerUnreachable, or what the broker answered."""
        connection = cls(host, port, settings or ChannelSettings())
        await connection._connect()
        try:
            await connection._negotiate()
        except BaseException:
            connection.drop()
            raise
        return connection

    @classmethod
    async def open_unasked(
        cls, host: str, port: int, versions: Mapping[int, int], settings: ChannelSettings | None = None
    ) -> Self:
        """Connect to a broker that may be too early in its start to say what it offers.

        ``versions``: by API key, those that requests are to be sent in.
        """
        connection = cls(host, port, settings or ChannelSettings())
        connection.versions = {key: (version, version) for key, version in versions.items()}
        await connection._connect()
        return connection

    @property
    def closed(self) -> bool:
        return self._closed is not None

    def hung_up(self) -> bool:
        """Ended by the other side, as the kernel knows it; the event loop may not have come to it yet."""
        if self._closed is not None or self._transport is None:
            return self.lost
        sock = self._transport.get_extra_info("socket")
        if sock is None:  # Not a real transport.
            return False
        kernel = select.poll()
        kernel.register(sock.fileno(), select.POLLRDHUP)
        return bool(kernel.poll(0))

    def version_for(
        self, message: type[Message] | Message, min_version: int = 0, max_version: int | None = None
    ) -> int:
        """The highest version both sides know; raises UNSUPPORTED_VERSION when there is none."""
        api = API_BY_KEY[message.API_KEY]
        offered = self.versions.get(api.key)
        if offered is None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self.host}:{self.port} does not offer {api.name}"
            )
        highest = api.max_version if max_version is None else min(max_version, api.max_version)
        version = min(offered[1], highest)
        if version < max(offered[0], api.min_version, min_version):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.host}:{self.port} offers {api.name} {offered[0]} to {offered[1]}, "
                f"this client needs {max(api.min_version, min_version)} to {highest}",
            )
        return version

    async def request(
        self,
        message: Message,
        response_type: type[R],
        *,
        min_version: int = 0,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Send a request in the highest common version and wait for its answer."""
        version = self.version_for(message, min_version, max_version)
        return await self._exchange(message, response_type, version, timeout_ms)

    async def send_unanswered(self, message: Message, *, min_version: int = 0) -> None:
        """Send what the broker will not answer: Produce with acks=0."""
        self._send(message, self.version_for(message, min_version))
        await self._frames.drain()

    def send_for(
        self, waiter: Waiter, api_key: int, version: int, write_body: Callable[[bytearray], None]
    ) -> None:
        """Send a request whose body is encoded elsewhere; ``waiter`` hears of its answer, without a limit."""
        self._waiting[self._send_body(api_key, version, write_body)] = waiter

    async def wait_lost(self) -> None:
        """Return when there is no connection any more, whoever ended it."""
        await self._gone.wait()

    def drop(self) -> None:
        """End it now; whoever waits for an answer hears ConnectionLost."""
        self._end(ConnectionLost(f"the connection to {self.host}:{self.port} was closed"))

    async def close(self) -> None:
        self.drop()
        if self._transport is not None:
            self._transport.close()
            await self._gone.wait()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                self._transport, _ = await loop.create_connection(lambda: self._frames, self.host, self.port)
        except (OSError, UnicodeError) as error:
            raise BrokerUnreachable.from_problems([((self.host, self.port), error)]) from error

    async def _negotiate(self) -> None:
        version = API_BY_KEY[ApiVersionsRequest.API_KEY].max_version
        while True:
            frame = await self._exchange_raw(
                _api_versions_request(), version, self._settings.connect_timeout_ms
            )
            body = memoryview(frame)[read_response_header(frame, 0, ApiVersionsRequest.API_KEY, version)[1] :]
            if len(body) < 2:
                raise self.garbled(ProtocolError("the answer to ApiVersions is empty"))
            unsupported = _INT16.unpack_from(body, 0)[0] == ErrorCode.UNSUPPORTED_VERSION
            try:
                # A version the broker does not know is answered in version 0, with the table (KIP-511).
                answer = ApiVersionsResponse.from_bytes(body, 0 if unsupported else version)
            except ProtocolError as error:
                raise self.garbled(error) from error
            if not unsupported:
                break
            offered = {entry.api_key: entry.max_version for entry in answer.api_keys}
            lower = min(offered.get(ApiVersionsRequest.API_KEY, 0), version - 1)
            if lower < 0:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker knows no version of ApiVersions")
            version = lower
        check_code(answer.error_code, f"{self.host}:{self.port} refused ApiVersions")
        self.api_versions = answer
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}

    async def _exchange(
        self, message: Message, response_type: type[R], version: int, timeout_ms: int | None
    ) -> R:
        frame = await self._exchange_raw(message, version, timeout_ms)
        try:
            _, pos = read_response_header(frame, 0, message.API_KEY, version)
            response, end = response_type.read(frame, pos, version)
        except ProtocolError as error:
            raise self.garbled(error) from error
        if end != len(frame):
            raise self.garbled(
                ProtocolError(f"{len(frame) - end} bytes too many after {response_type.__name__}")
            )
        return response

    async def _exchange_raw(self, message: Message, version: int, timeout_ms: int | None) -> ReadBuffer:
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        correlation_id = self._send(message, version)
        answer: asyncio.Future[ReadBuffer] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = answer
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._frames.drain()
                return await answer
        except TimeoutError:
            raise self.give_up_waiting(message.API_KEY, limit_ms) from None

    def give_up_waiting(self, api_key: int, limit_ms: int) -> RequestTimedOut:
        """Answers come in order: behind one that hangs nothing more will arrive."""
        name = API_BY_KEY[api_key].name
        error = RequestTimedOut(f"{self.host}:{self.port} did not answer {name} within {limit_ms} ms")
        self._end(error)
        return error

    def _send(self, message: Message, version: int) -> int:
        return self._send_body(message.API_KEY, version, lambda out: message.write(out, version))

    def _send_body(self, api_key: int, version: int, write_body: Callable[[bytearray], None]) -> int:
        if self._closed is not None:
            raise self._closed
        assert self._transport is not None, "the connection is not open"
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        out = bytearray(4)
        write_request_header(out, api_key, version, correlation_id, self._settings.client_id)
        write_body(out)
        _SIZE.pack_into(out, 0, len(out) - 4)
        self._transport.write(out)
        return correlation_id

    def _frame_received(self, frame: ReadBuffer) -> None:
        (correlation_id,) = _SIZE.unpack_from(frame, 0)
        answer = self._waiting.pop(correlation_id, None)
        if answer is None:
            self._end(
                ConnectionLost(f"{self.host}:{self.port} answered request {correlation_id}, never sent")
            )
        elif not answer.done():
            answer.set_result(frame)

    def _lost(self, cause: Exception | None) -> None:
        self._gone.set()
        self.lost = self._closed is None
        reason = str(cause) if cause else "it closed the connection"
        self._end(ConnectionLost(f"lost {self.host}:{self.port}: {reason}"))

    def garbled(self, error: ProtocolError) -> ConnectionLost:
        """End the connection because of an answer that cannot be read; the error to raise for it."""
        lost = ConnectionLost(f"{self.host}:{self.port} sent what this client cannot read: {error}")
        self._end(lost)
        return lost

    def _end(self, error: KafkaError) -> None:
        if self._closed is None:
            self._closed = error
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(error)
        if self._transport is not None:
            self._transport.abort()


def _api_versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="ruslo", client_software_version=_CLIENT_VERSION)


def check_code(code: int, message: str | None) -> None:
    """Raise the error that a code stands for, if it is one."""
    if code != ErrorCode.NONE:
        raise error_of(code, message)


def error_of(code: int, message: str | None) -> KafkaError:
    if code in ErrorCode._value2member_map_:
        return KafkaError(ErrorCode(code), message)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"error {code}: {message or 'unknown to this client'}")
