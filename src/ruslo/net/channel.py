"""An outbound connection to a broker: negotiates versions, pipelines requests and matches responses.

On a SASL listener it authenticates before the first request, and again before its session expires. Requests
that are made in the meantime are sent afterwards.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Mapping
from struct import Struct
from typing import NamedTuple, Protocol, Self, TypeVar

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.net.channel_security import UNPROTECTED, ChannelSecurity
from ruslo.net.errors import BrokerUnreachable, ConnectionLost, RequestTimedOut
from ruslo.net.frames import FrameProtocol
from ruslo.net.sasl.client_exchange import ClientLogin
from ruslo.net.sasl.mechanism import AuthenticationFailed
from ruslo.net.tls.errors import TlsError
from ruslo.net.tls.layer import TlsLayer
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.headers import read_response_header, write_request_header
from ruslo.protocol.message import Message
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.api_versions_response import ApiVersionsResponse
from ruslo.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ruslo.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ruslo.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ruslo.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

R = TypeVar("R", bound=Message)
T = TypeVar("T")
X = TypeVar("X")
Y = TypeVar("Y")

_SIZE = Struct(">i")
_INT16 = Struct(">h")
_CLIENT_VERSION = "0.1.0"
_API_VERSIONS_VERSION = 4
"""The highest version of ApiVersions that a channel sends. Version 5 only adds the expected node."""
_SASL_KEYS = (SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY)
_REAUTHENTICATE_AFTER = 0.9
"""The part of a session after which the channel authenticates again (KIP-368)."""


class ChannelSettings(NamedTuple):
    client_id: str = "ruslo"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    max_response_bytes: int = 256 * 1024 * 1024
    security: ChannelSecurity = UNPROTECTED


class ResponseHandler(Protocol):
    """Receives one response. An asyncio future is one; others are called while the response is read."""

    def done(self) -> bool:
        """Return whether the response is no longer wanted."""
        ...

    def set_result(self, frame: ReadBuffer, /) -> None: ...

    def set_exception(self, error: KafkaError, /) -> None: ...


class Channel:
    """Created by ``open``. Any fault (a timeout, an invalid response, a closed peer) closes it for good."""

    def __init__(self, host: str, port: int, settings: ChannelSettings) -> None:
        self.host = host
        self.port = port
        self.versions: dict[int, tuple[int, int]] = {}
        """The lowest and highest version that the broker supports, by API key."""
        self.api_versions: ApiVersionsResponse | None = None
        self._settings = settings
        self._frames = FrameProtocol(settings.max_response_bytes, self._frame_received, self._lost)
        self._transport: asyncio.Transport | None = None
        self._in_flight: dict[int, ResponseHandler] = {}
        """Requests without a response, by correlation id."""
        self._next_correlation_id = 0
        self._closed: KafkaError | None = None
        self.lost = False
        """Whether the broker closed the connection: neither this side did, nor a timeout."""
        self._gone = asyncio.Event()
        self._held: list[bytearray] | None = None
        """Requests that wait until the channel has authenticated again."""
        self._session_timer: asyncio.TimerHandle | None = None
        self._reauthentication: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, host: str, port: int, settings: ChannelSettings | None = None) -> Self:
        """Connect, negotiate versions and authenticate.

        Raises BrokerUnreachable, or the error of the broker's response.
        """
        connection = cls(host, port, settings or ChannelSettings())
        await connection._connect()
        try:
            await connection._negotiate()
            await connection._authenticate()
        except BaseException:
            connection.drop()
            raise
        return connection

    @classmethod
    async def open_with_versions(
        cls, host: str, port: int, versions: Mapping[int, int], settings: ChannelSettings | None = None
    ) -> Self:
        """Connect without ApiVersions, to a broker that may not respond to it yet.

        ``versions``: the version in which to send requests, by API key.
        """
        connection = cls(host, port, settings or ChannelSettings())
        connection.versions = {key: (version, version) for key, version in versions.items()}
        await connection._connect()
        return connection

    @property
    def closed(self) -> bool:
        return self._closed is not None

    def peer_closed(self) -> bool:
        """Whether the broker closed the connection, even if the event loop has not read that yet."""
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
        """Return the highest version that both sides support; raises UNSUPPORTED_VERSION without one."""
        api = API_BY_KEY[message.API_KEY]
        offered = self.versions.get(api.key)
        if offered is None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self.host}:{self.port} does not support {api.name}"
            )
        highest = api.max_version if max_version is None else min(max_version, api.max_version)
        version = min(offered[1], highest)
        if version < max(offered[0], api.min_version, min_version):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.host}:{self.port} supports {api.name} v{offered[0]} to v{offered[1]}, "
                f"this client needs v{max(api.min_version, min_version)} to v{highest}",
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
        """Send a request in the highest common version and wait for its response."""
        version = self.version_for(message, min_version, max_version)
        return await self._exchange(message, response_type, version, timeout_ms)

    async def send_without_response(self, message: Message, *, min_version: int = 0) -> None:
        """Send a request that has no response: Produce with acks=0."""
        self._send(message, self.version_for(message, min_version))
        await self._frames.drain()

    def send_request(
        self, handler: ResponseHandler, api_key: int, version: int, write_body: Callable[[bytearray], None]
    ) -> None:
        """Send a request whose body the caller encodes; ``handler`` gets its response, without a timeout."""
        self._in_flight[self._send_body(api_key, version, write_body)] = handler

    async def wait_closed(self) -> None:
        """Return when the connection is closed, by either side."""
        await self._gone.wait()

    def drop(self) -> None:
        """Close now; requests in flight fail with ConnectionLost."""
        self._end(ConnectionLost(f"the connection to {self.host}:{self.port} was closed"))

    async def close(self) -> None:
        self.drop()
        if self._transport is not None:
            self._transport.close()
            await self._gone.wait()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        context = self._settings.security.context
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                if context is None:
                    self._transport, _ = await loop.create_connection(
                        lambda: self._frames, self.host, self.port
                    )
                else:
                    layer = TlsLayer(self._frames, context(), server_side=False, server_hostname=self.host)
                    await loop.create_connection(lambda: layer, self.host, self.port)
                    self._transport = layer
                    await self._frames.tls_handshake()
        except (OSError, UnicodeError, TlsError) as error:
            if self._transport is not None:
                self._transport.abort()
            raise BrokerUnreachable.from_problems([((self.host, self.port), error)]) from error

    async def _negotiate(self) -> None:
        version = _API_VERSIONS_VERSION
        while True:
            frame = await self._exchange_raw(
                _api_versions_request(), version, self._settings.connect_timeout_ms
            )
            _, pos = read_response_header(frame, 0, ApiVersionsRequest.API_KEY, version)
            body = memoryview(frame)[pos:]
            if len(body) < 2:
                raise self.invalid_response(ProtocolError("the ApiVersions response is empty"))
            unsupported = _INT16.unpack_from(body, 0)[0] == ErrorCode.UNSUPPORTED_VERSION
            try:
                # A broker without this version responds in version 0, with its versions (KIP-511).
                response = ApiVersionsResponse.from_bytes(body, 0 if unsupported else version)
            except ProtocolError as error:
                raise self.invalid_response(error) from error
            if not unsupported:
                break
            offered = {entry.api_key: entry.max_version for entry in response.api_keys}
            lower = min(offered.get(ApiVersionsRequest.API_KEY, 0), version - 1)
            if lower < 0:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, "the broker supports no version of ApiVersions"
                )
            version = lower
        check_code(response.error_code, f"{self.host}:{self.port} refused ApiVersions")
        self.api_versions = response
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}

    # -- SASL ------------------------------------------------------------------------------------------------

    async def _authenticate(self) -> None:
        """Raises SASL_AUTHENTICATION_FAILED, or UNSUPPORTED_SASL_MECHANISM."""
        login = self._settings.security.login
        if login is None:
            return
        handshake = await self.request(
            SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse, min_version=1
        )
        if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"{self.host}:{self.port} does not support sasl.mechanism={login.mechanism}. Use one of "
                f"{', '.join(handshake.mechanisms) or 'none'}",
            )
        check_code(handshake.error_code, f"{self.host}:{self.port} refused the SASL handshake")
        try:
            session_ms = await self._exchange_tokens(login)
        except AuthenticationFailed as error:
            raise KafkaError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"{login.mechanism} authentication to {self.host}:{self.port} failed: {error.reason}",
            ) from None
        if session_ms > 0:
            self._session_timer = asyncio.get_running_loop().call_later(
                session_ms * _REAUTHENTICATE_AFTER / 1000, self._begin_reauthentication
            )

    async def _exchange_tokens(self, login: ClientLogin) -> int:
        """Returns the lifetime of the session in milliseconds; 0: no limit."""

        async def call(function: Callable[[X], Y], argument: X) -> Y:
            return await asyncio.to_thread(function, argument) if login.blocking else function(argument)

        mechanism = await call(login.new, self.host)
        token = await call(mechanism.respond, b"")
        while True:
            response = await self.request(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
            if response.error_code:
                message = response.error_message or "the broker gives no reason"
                raise error_of(response.error_code, f"{self.host}:{self.port}: {message}")
            challenge = bytes(response.auth_bytes)
            if mechanism.complete and not challenge:
                return response.session_lifetime_ms
            token = await call(mechanism.respond, challenge)
            if mechanism.complete and not token:
                return response.session_lifetime_ms

    def _begin_reauthentication(self) -> None:
        if self._closed is None:
            self._reauthentication = asyncio.get_running_loop().create_task(self._reauthenticate())

    async def _reauthenticate(self) -> None:
        """The broker handles requests in their order, so those in flight are within the old session."""
        self._held = []
        try:
            await self._authenticate()
        except KafkaError as error:
            self._end(error)
            return
        held, self._held = self._held, None
        if self._transport is not None:
            for frame in held:
                self._transport.write(frame)

    # -- requests --------------------------------------------------------------------------------------------

    async def _exchange(
        self, message: Message, response_type: type[R], version: int, timeout_ms: int | None
    ) -> R:
        frame = await self._exchange_raw(message, version, timeout_ms)
        try:
            _, pos = read_response_header(frame, 0, message.API_KEY, version)
            response, end = response_type.read(frame, pos, version)
        except ProtocolError as error:
            raise self.invalid_response(error) from error
        if end != len(frame):
            raise self.invalid_response(
                ProtocolError(f"{len(frame) - end} bytes follow {response_type.__name__}")
            )
        return response

    async def _exchange_raw(self, message: Message, version: int, timeout_ms: int | None) -> ReadBuffer:
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        correlation_id = self._send(message, version)
        response: asyncio.Future[ReadBuffer] = asyncio.get_running_loop().create_future()
        self._in_flight[correlation_id] = response
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._frames.drain()
                return await response
        except TimeoutError:
            raise self.time_out(message.API_KEY, limit_ms) from None

    def time_out(self, api_key: int, limit_ms: int) -> RequestTimedOut:
        """Close the connection: responses come in order, so none will follow the one that is missing."""
        name = API_BY_KEY[api_key].name
        error = RequestTimedOut(f"{self.host}:{self.port} did not respond to {name} within {limit_ms} ms")
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
        if self._held is None or api_key in _SASL_KEYS:
            self._transport.write(out)
        else:
            self._held.append(out)
        return correlation_id

    def _frame_received(self, frame: ReadBuffer) -> None:
        (correlation_id,) = _SIZE.unpack_from(frame, 0)
        handler = self._in_flight.pop(correlation_id, None)
        if handler is None:
            self._end(
                ConnectionLost(f"{self.host}:{self.port} sent the unknown correlation id {correlation_id}")
            )
        elif not handler.done():
            handler.set_result(frame)

    def _lost(self, cause: Exception | None) -> None:
        self._gone.set()
        self.lost = self._closed is None
        reason = str(cause) if cause else "it closed the connection"
        self._end(ConnectionLost(f"lost {self.host}:{self.port}: {reason}"))

    def invalid_response(self, error: ProtocolError) -> ConnectionLost:
        """Close the connection because of a response that cannot be decoded; returns the error to raise."""
        lost = ConnectionLost(f"{self.host}:{self.port} sent an invalid response: {error}")
        self._end(lost)
        return lost

    def _end(self, error: KafkaError) -> None:
        if self._closed is None:
            self._closed = error
        if self._session_timer is not None:
            self._session_timer.cancel()
        if self._reauthentication is not None and self._reauthentication is not asyncio.current_task():
            self._reauthentication.cancel()
        in_flight, self._in_flight = self._in_flight, {}
        for handler in in_flight.values():
            if not handler.done():
                handler.set_exception(error)
        if self._transport is not None:
            self._transport.abort()


def _api_versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="ruslo", client_software_version=_CLIENT_VERSION)


def check_code(code: int, message: str | None) -> None:
    """Raise the KafkaError of a code other than NONE."""
    if code != ErrorCode.NONE:
        raise error_of(code, message)


def error_of(code: int, message: str | None) -> KafkaError:
    if code in ErrorCode._value2member_map_:
        return KafkaError(ErrorCode(code), message)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"error {code}: {message or 'unknown to this client'}")


def result_of(code: int, message: str | None, value: T) -> T | KafkaError:
    """The value, or the KafkaError of a code other than NONE."""
    return error_of(code, message) if code else value
