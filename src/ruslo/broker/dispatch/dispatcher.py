"""From a frame to a response: finds the API, decodes, calls the handler, encodes, translates errors.

Produce and Fetch have handlers of their own (``handlers/produce.py``, ``handlers/fetch.py``): they read the
request in the receive buffer, without a task, and respond in the same call or, if they must wait, through a
``PendingResponse``. Every other API goes through the generated codecs; its handler may be a coroutine.

The cost of a request is bounded before it is decoded (``requests/bounds``). A large request is decoded, and
its response encoded, in a thread; the connection handles no other request meanwhile.

Exceptions that leave a handler become responses here: a KafkaError gets its API's error response. Any other
exception is a bug of the broker: it is logged with a traceback and the response is UNKNOWN_SERVER_ERROR. If a
response has no field for an error the connection is closed, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol, TypeAlias

from ruslo.broker.counters.api_stats import ApiStats, RequestStats
from ruslo.broker.handlers.services import Handler, NodeServices
from ruslo.broker.requests.bounds import (
    INLINE_BYTES,
    INLINE_ELEMENTS,
    LARGE_REQUESTS_MAX,
    RequestBound,
    bound_of,
)
from ruslo.broker.requests.chunked_response import ChunkedResponse, WaitingResponse
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.error_responses import error_response
from ruslo.broker.requests.parts import Division, merge, parts_of
from ruslo.broker.requests.session import ClientSession
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.broker.scheduling.scheduler import Priority
from ruslo.broker.scheduling.worker_thread import WorkerThread
from ruslo.machines.quota import NO_METERS
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.model.log_ids import log_ids
from ruslo.net.connection import Connection
from ruslo.net.pending_response import PendingResponse
from ruslo.net.send_queue import Chunk
from ruslo.protocol.apis import Api
from ruslo.protocol.message import Message
from ruslo.protocol.primitives import read_tag, read_uvarint

logger = logging.getLogger(__name__)

REQUEST_HEAD = struct.Struct(">hhih")
FRAME_HEAD = struct.Struct(">ii")
API_VERSIONS_KEY = 18
MAX_HEADER_TAGS = 1_000

AnyResponse: TypeAlias = Message | ChunkedResponse
Frame: TypeAlias = Sequence[Chunk]
"""A whole response, as chunks."""


class HotHandler(Protocol):
    """Produce and Fetch: from bytes in the receive buffer to a response on the connection, in one call."""

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class ServedApi:
    api: Api
    handle: Handler | None = None
    hot: HotHandler | None = None
    pipeline: str = ""
    """Requests of one pipeline are handled while earlier ones of it have no response yet. Any other request
    is handled once every request before it on its connection has its response."""
    bound: RequestBound = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", bound_of(self.api.name))


class _PendingRequest(NamedTuple):
    """A request that has no response yet."""

    api: Api
    version: int
    correlation_id: int
    stats: ApiStats
    begun_ns: int
    connection: Connection
    client_id: str | None
    session: ClientSession
    busy_ns: int | None = None
    """How long a request that waits kept the event loop busy before; None: it does not wait."""

    @property
    def ids(self) -> dict[str, dict[str, object]]:
        """The ids of a log line about the request."""
        return log_ids(
            connection=self.connection.peer, client_id=self.client_id, correlation_id=self.correlation_id
        )


class Dispatcher:
    def __init__(
        self, services: NodeServices, served: Mapping[int, ServedApi], requests: RequestStats
    ) -> None:
        self._services = services
        self._quotas = services.quotas
        self._requests = requests
        self._served = dict(served)
        self._tasks = BackgroundTasks()
        self._large_requests = asyncio.Semaphore(LARGE_REQUESTS_MAX)
        self._thread = WorkerThread("requests")

    def handle_frame(self, connection: Connection, buf: bytearray, start: int, end: int) -> bool:
        if end - start < REQUEST_HEAD.size:
            raise ProtocolError(f"a frame of {end - start} bytes is too short for a request header")
        api_key, version, correlation_id, client_id_length = REQUEST_HEAD.unpack_from(buf, start)
        served = self._served.get(api_key)
        if not connection.admit(served.pipeline if served is not None else ""):
            return False
        if served is None:
            raise ProtocolError(f"API key {api_key} is not supported on this listener")
        api = served.api
        if not api.min_version <= version <= api.max_version:
            self._refuse_version(connection, served, version, correlation_id)
            return True
        pos = start + REQUEST_HEAD.size
        if client_id_length > 0:
            pos += client_id_length
        elif client_id_length < -1:
            raise ProtocolError(f"the client id has the invalid length {client_id_length}")
        if version >= api.flexible_from:
            pos = _skip_header_tags(buf, pos, end)
        if pos > end:
            raise ProtocolError("the client id exceeds the frame")
        session: ClientSession | None = connection.session
        if session is None:
            session = self._services.open_session(connection.principal, connection.peer_host)
            connection.session = session
        if self._quotas.active or session.meters is not NO_METERS:
            at = start + REQUEST_HEAD.size
            session.use_client_id(bytes(buf[at : at + max(client_id_length, 0)]))
        if served.hot is not None:
            try:
                served.hot.handle(connection, buf, pos, end, version, correlation_id)
            except ProtocolError as error:
                raise ProtocolError(f"{api.name} v{version}: {error}") from error
            return True
        client_id = None
        if client_id_length >= 0:
            at = start + REQUEST_HEAD.size
            client_id = buf[at : at + client_id_length].decode("utf-8", "replace")
        self._handle(connection, served, memoryview(buf)[pos:end], version, correlation_id, client_id)
        return True

    # -- requests with generated codecs ----------------------------------------------------------------------

    def _handle(
        self,
        connection: Connection,
        served: ServedApi,
        body: memoryview,
        version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        api = served.api
        stats = self._requests.of(api.name)
        session: ClientSession = connection.session
        pending = _PendingRequest(
            api, version, correlation_id, stats, stats.now_ns(), connection, client_id, session
        )
        context = RequestContext(
            api_version=version,
            client_id=client_id,
            listener_name=connection.listener_name,
            peer_host=connection.peer_host,
            principal=connection.principal,
            connection=connection,
            access=session.access,
            api_name=api.name,
        )
        if len(body) > INLINE_BYTES:
            if len(body) > served.bound.max_bytes:
                raise ProtocolError(
                    f"{api.name} v{version} request has {len(body)} bytes; the limit is "
                    f"{served.bound.max_bytes}. Send several smaller requests"
                )
            reply = connection.hold()
            self._start(reply, pending, self._respond_large(reply, pending, served, bytes(body), context))
            return
        request, elements = _decode(served, body, version)
        if elements > INLINE_ELEMENTS and (parts := parts_of(api.name, request)) is not None:
            self._start(connection.hold(), pending, self._respond_in_parts(pending, served, *parts, context))
            return
        response = self._call(pending, served, request, context)
        if session.meters.request is not None and isawaitable(response):
            pending = pending._replace(busy_ns=stats.now_ns() - pending.begun_ns)
        if isinstance(response, asyncio.Future | WaitingResponse):
            # The future of a coordinator needs no task: thousands of commits a second come this way.
            reply = connection.defer()
            if isinstance(response, WaitingResponse):
                reply.on_abandoned, response = response.abandon, response.future
            response.add_done_callback(partial(self._respond_when_done, connection, reply, pending, request))
        elif isawaitable(response):
            self._start(connection.defer(), pending, self._respond_later(pending, request, response))
        elif (frame := self._encode(pending, response)) is not None:
            connection.send_all(frame)
        else:
            connection.close()

    def _call(
        self, pending: _PendingRequest, served: ServedApi, request: Message, context: RequestContext
    ) -> Any:
        assert served.handle is not None
        try:
            return served.handle(self._services, request, context)
        except Exception as error:
            return self._error_response(pending, request, error)

    def _start(
        self,
        pending_response: PendingResponse,
        pending: _PendingRequest,
        frame_coroutine: Coroutine[Any, Any, Frame | None],
    ) -> None:
        self._tasks.start(self._send_response(pending_response, pending, frame_coroutine))

    async def _send_response(
        self,
        pending_response: PendingResponse,
        pending: _PendingRequest,
        frame_coroutine: Coroutine[Any, Any, Frame | None],
    ) -> None:
        try:
            frame = await frame_coroutine
        except ProtocolError as error:
            pending.connection.refuse(error)
            return
        except Exception:
            logger.exception("closing a connection: %s failed", pending.api.name, extra=pending.ids)
            frame = None
        if frame is not None:
            pending_response.send(frame)
        else:
            pending.connection.close()

    async def _respond_later(
        self, pending: _PendingRequest, request: Message, response: Awaitable[AnyResponse]
    ) -> Frame | None:
        return self._encode(pending, await self._result(pending, request, response))

    async def _result(
        self,
        pending: _PendingRequest,
        request: Message,
        response: AnyResponse | Awaitable[AnyResponse] | None,
    ) -> AnyResponse | None:
        if response is None or isinstance(response, Message | ChunkedResponse):
            return response
        try:
            return await response
        except Exception as error:
            return self._error_response(pending, request, error)

    # -- large requests --------------------------------------------------------------------------------------

    async def _respond_large(
        self,
        reply: PendingResponse,
        pending: _PendingRequest,
        served: ServedApi,
        body: bytes,
        context: RequestContext,
    ) -> Frame | None:
        async with self._large_requests:
            request, _ = await self._thread.run(_decode, served, body, pending.version)
            parts = parts_of(pending.api.name, request)
            if parts is not None:
                return await self._respond_in_decoded_parts(pending, served, *parts, context)
        # Outside the semaphore: the response may wait as long as its client allows.
        called = self._call(pending, served, request, context)
        if isinstance(called, WaitingResponse):
            if reply.abandoned:
                called.abandon()
            else:
                reply.on_abandoned = called.abandon
        response = await self._result(pending, request, called)
        del request, called
        return self._finish(pending, response, await self._thread.run(self._encoded, pending, response))

    async def _respond_in_parts(
        self,
        pending: _PendingRequest,
        served: ServedApi,
        division: Division,
        parts: Iterator[Message],
        context: RequestContext,
    ) -> Frame | None:
        async with self._large_requests:
            return await self._respond_in_decoded_parts(pending, served, division, parts, context)

    async def _respond_in_decoded_parts(
        self,
        pending: _PendingRequest,
        served: ServedApi,
        division: Division,
        parts: Iterator[Message],
        context: RequestContext,
    ) -> Frame | None:
        responses: list[Message] = []
        for part in parts:
            response = await self._result(pending, part, self._call(pending, served, part, context))
            if not isinstance(response, Message) or not hasattr(response, division.response_array):
                return self._finish(pending, None, None)
            pending.stats.record_errors(response)
            responses.append(response)
            if pending.connection.closed:
                return None
            await self._services.scheduler.checkpoint(Priority.REQUEST)
        pending.stats.record_response(pending.begun_ns)
        return await self._thread.run(lambda: self._encoded(pending, merge(division, responses)))

    def _respond_when_done(
        self,
        connection: Connection,
        pending_response: PendingResponse,
        pending: _PendingRequest,
        request: Message,
        future: asyncio.Future[AnyResponse],
    ) -> None:
        if future.cancelled():
            connection.close()
            return
        error = future.exception()
        response = future.result() if error is None else self._error_response(pending, request, error)
        if (frame := self._encode(pending, response)) is not None:
            pending_response.send(frame)
        else:
            connection.close()

    def _encode(self, pending: _PendingRequest, response: AnyResponse | None) -> Frame | None:
        """Return the frame to send; None if the connection must be closed instead."""
        return self._finish(pending, response, self._encoded(pending, response))

    def _finish(
        self, pending: _PendingRequest, response: AnyResponse | None, frame: Frame | None
    ) -> Frame | None:
        pending.stats.record_response(pending.begun_ns)
        if response is None:
            pending.stats.record_error(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif isinstance(response, ChunkedResponse):
            for code in response.error_codes():
                pending.stats.record_error(code)
        else:
            pending.stats.record_errors(response)
        return frame

    def _encoded(self, pending: _PendingRequest, response: AnyResponse | None) -> Frame | None:
        api, version, correlation_id, *_ = pending
        if response is None:
            return None
        self._throttle(pending, response)
        out = bytearray(FRAME_HEAD.size)
        if version >= api.flexible_from and api.key != API_VERSIONS_KEY:
            out.append(0)
        chunks: Frame = (out,)
        try:
            if isinstance(response, ChunkedResponse):
                chunks, size = response.encode(out, version)
            else:
                response.write(out, version)
                size = len(out)
        except ProtocolError:
            # A bug of the broker: the request was valid.
            logger.exception("the %s v%d response cannot be encoded", api.name, version, extra=pending.ids)
            return None
        FRAME_HEAD.pack_into(out, 0, size - 4, correlation_id)
        return chunks

    def _throttle(self, pending: _PendingRequest, response: Any) -> None:
        """Tell the client how long it must wait, and let it wait (KIP-219)."""
        if not hasattr(response, "throttle_time_ms"):
            return
        # Before the log-in all clients are ANONYMOUS: with a quota, one of them could hold up the others.
        has_quota = pending.session.meters.request is not None and not pending.connection.awaits_login
        if has_quota and not pending.api.cluster_action:
            busy_ns = pending.busy_ns
            if busy_ns is None:
                busy_ns = pending.stats.now_ns() - pending.begun_ns
            now_ms = self._services.clock.monotonic_ms()
            waits_ms = pending.session.throttle_ms(None, 0, busy_ns, now_ms)
            response.throttle_time_ms = max(response.throttle_time_ms, waits_ms)
        if response.throttle_time_ms > 0:
            pending.connection.mute(response.throttle_time_ms)

    # -- errors ----------------------------------------------------------------------------------------------

    def _refuse_version(
        self, connection: Connection, served: ServedApi, version: int, correlation_id: int
    ) -> None:
        """Respond to ApiVersions in v0, which tells the client the supported versions (KIP-511)."""
        api = served.api
        if api.key != API_VERSIONS_KEY:
            raise ProtocolError(
                f"{api.name} v{version} is not supported; use v{api.min_version} to v{api.max_version}"
            )
        assert served.handle is not None
        response = served.handle(self._services, api.request(), RequestContext(api_version=0))
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        stats = self._requests.of(api.name)
        session = connection.session or self._services.open_session(
            connection.principal, connection.peer_host
        )
        pending = _PendingRequest(api, 0, correlation_id, stats, stats.now_ns(), connection, None, session)
        frame = self._encode(pending, response)
        assert frame is not None
        connection.send_all(frame)

    def _error_response(
        self, pending: _PendingRequest, request: Message, error: BaseException
    ) -> Message | None:
        """Return the API's response for an exception; None if the response has no field for an error."""
        if not isinstance(error, KafkaError):
            logger.error("%s failed", pending.api.name, exc_info=error, extra=pending.ids)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed; see its log")
        return error_response(request, error, pending.version)


def _decode(served: ServedApi, body: bytes | memoryview, version: int) -> tuple[Message, int]:
    """Return the request and the number of its array elements; runs in a thread if the request is large."""
    api = served.api
    try:
        # Trailing bytes are ignored, as in Kafka: librdkafka has sent some (Metadata v13).
        return api.request.read_bounded(body, version, served.bound.max_elements)
    except ProtocolError as error:
        raise ProtocolError(f"malformed {api.name} request v{version}: {error}") from error


def _skip_header_tags(buf: bytearray, pos: int, end: int) -> int:
    """Skip the tagged fields of a flexible header; clients send none today."""
    if pos >= end:
        raise ProtocolError("the request header is truncated")
    try:
        count, pos = read_uvarint(buf, pos)
        if count > MAX_HEADER_TAGS:
            raise ProtocolError(f"it has {count} tagged fields; the limit is {MAX_HEADER_TAGS}")
        tag = -1
        for _ in range(count):
            tag, _, pos = read_tag(buf, pos, end, tag)
    except ProtocolError as error:
        raise ProtocolError(f"malformed request header: {error}") from error
    except IndexError:
        raise ProtocolError("the request header is truncated") from None
    return pos
