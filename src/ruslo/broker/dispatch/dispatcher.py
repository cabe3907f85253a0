"""From a frame to an answer: finds the API, decodes, calls the handler, encodes, translates errors.

Produce and Fetch take their own flat road (``handlers/produce.py``, ``handlers/fetch.py``): they read
positions in the receive buffer and answer within the same call. Every other API goes through the generated
codecs; its handler may be a coroutine.

What a request may cost is bounded before it is decoded (``request_bounds``). A large one is decoded, and its
response encoded, in a thread; the connection is held meanwhile.

Errors become answers only here. A KafkaError gets the response its API has for it; anything else is our own
fault: it is logged with a traceback and answered UNKNOWN_SERVER_ERROR. Where a response has no place for
an error the connection is closed, as Kafka does.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol

from ruslo.broker.counters.api_stats import ApiStats, RequestStats
from ruslo.broker.handlers.services import Handler, NodeServices
from ruslo.broker.requests.bounds import (
    INLINE_BYTES,
    INLINE_ELEMENTS,
    LARGE_REQUESTS_MAX,
    RequestBound,
    bound_of,
)
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.parts import Division, merge, parts_of
from ruslo.broker.scheduling.scheduler import Priority
from ruslo.broker.scheduling.worker_thread import WorkerThread
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.model.log_ids import log_ids
from ruslo.net.connection import Connection
from ruslo.net.pending_response import PendingResponse
from ruslo.protocol.apis import Api
from ruslo.protocol.message import Message
from ruslo.protocol.primitives import read_tag, read_uvarint

logger = logging.getLogger(__name__)

REQUEST_HEAD = struct.Struct(">hhih")
FRAME_HEAD = struct.Struct(">ii")
API_VERSIONS_KEY = 18
MAX_HEADER_TAGS = 1_000


class HotHandler(Protocol):
    """Produce and Fetch: bytes in the receive buffer to an answer on the connection, in one call."""

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class ServedApi:
    api: Api
    handle: Handler | None = None
    hot: HotHandler | None = None
    pipeline: str = ""
    """Requests of one pipeline are carried out while earlier ones of it wait for their answers. Any other
    request is carried out once everything before it on its connection has been answered."""
    bound: RequestBound = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", bound_of(self.api.name))


class _Asked(NamedTuple):
    """A request that is being answered."""

    api: Api
    version: int
    correlation_id: int
    stats: ApiStats
    begun_ns: int
    connection: Connection
    client_id: str | None

    @property
    def ids(self) -> dict[str, dict[str, object]]:
        """For the log."""
        return log_ids(
            connection=self.connection.peer, client_id=self.client_id, correlation_id=self.correlation_id
        )


class Dispatcher:
    def __init__(
        self, services: NodeServices, served: Mapping[int, ServedApi], requests: RequestStats
    ) -> None:
        self._services = services
        self._requests = requests
        self._served = dict(served)
        self._tasks: set[asyncio.Task[None]] = set()
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
            raise ProtocolError(f"API key {api_key} is not served here")
        api = served.api
        if not api.min_version <= version <= api.max_version:
            self._refuse_version(connection, served, version, correlation_id)
            return True
        pos = start + REQUEST_HEAD.size
        if client_id_length > 0:
            pos += client_id_length
        elif client_id_length < -1:
            raise ProtocolError(f"the client id has the impossible length {client_id_length}")
        if version >= api.flexible_from:
            pos = _skip_header_tags(buf, pos, end)
        if pos > end:
            raise ProtocolError("the client id reaches beyond the end of the frame")
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

    # -- the general road ------------------------------------------------------------------------------------

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
        asked = _Asked(api, version, correlation_id, stats, stats.now_ns(), connection, client_id)
        context = RequestContext(
            api_version=version,
            client_id=client_id,
            listener_name=connection.listener_name,
            peer_host=connection.peer_host,
            connection=connection,
        )
        if len(body) > INLINE_BYTES:
            if len(body) > served.bound.max_bytes:
                raise ProtocolError(
                    f"{api.name} request v{version} of {len(body)} bytes; {served.bound.max_bytes} are "
                    "allowed; send several smaller requests"
                )
            self._start(connection.hold(), asked, self._answer_large(asked, served, bytes(body), context))
            return
        request, elements = _decode(served, body, version)
        if elements > INLINE_ELEMENTS and (parts := parts_of(api.name, request)) is not None:
            self._start(connection.hold(), asked, self._answer_parts(asked, served, *parts, context))
            return
        response = self._call(asked, served, request, context)
        if isinstance(response, asyncio.Future):
            # A driver's own promise needs no task around it: thousands of commits a second come this way.
            response.add_done_callback(partial(self._answer_promised, connection, connection.defer(), asked))
        elif isawaitable(response):
            self._start(connection.defer(), asked, self._answer_later(asked, response))
        elif (answer := self._encode(asked, response)) is not None:
            connection.send(answer)
        else:
            connection.close()

    def _call(self, asked: _Asked, served: ServedApi, request: Message, context: RequestContext) -> Any:
        assert served.handle is not None
        try:
            return served.handle(self._services, request, context)
        except Exception as error:
            return self._error_response(asked, error)

    def _start(
        self, reply: PendingResponse, asked: _Asked, answering: Coroutine[Any, Any, bytearray | None]
    ) -> None:
        task = asyncio.get_running_loop().create_task(self._reply(reply, asked, answering))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(
        self, reply: PendingResponse, asked: _Asked, answering: Coroutine[Any, Any, bytearray | None]
    ) -> None:
        try:
            answer = await answering
        except ProtocolError as error:
            asked.connection.refuse(error)
            return
        except Exception:
            logger.exception("closing a connection: %s failed", asked.api.name, extra=asked.ids)
            answer = None
        if answer is not None:
            reply.send((answer,))
        else:
            asked.connection.close()

    async def _answer_later(self, asked: _Asked, pending: Awaitable[Message]) -> bytearray | None:
        return self._encode(asked, await self._result(asked, pending))

    async def _result(self, asked: _Asked, response: Message | Awaitable[Message] | None) -> Message | None:
        if response is None or isinstance(response, Message):
            return response
        try:
            return await response
        except Exception as error:
            return self._error_response(asked, error)

    # -- large requests --------------------------------------------------------------------------------------

    async def _answer_large(
        self, asked: _Asked, served: ServedApi, body: bytes, context: RequestContext
    ) -> bytearray | None:
        async with self._large_requests:
            request, _ = await self._thread.run(_decode, served, body, asked.version)
            parts = parts_of(asked.api.name, request)
            if parts is not None:
                return await self._answer_decoded_parts(asked, served, *parts, context)
        # Outside: it may wait for others for as long as its client allows.
        response = await self._result(asked, self._call(asked, served, request, context))
        del request
        return self._finish(asked, response, await self._thread.run(self._encoded, asked, response))

    async def _answer_parts(
        self,
        asked: _Asked,
        served: ServedApi,
        division: Division,
        parts: Iterator[Message],
        context: RequestContext,
    ) -> bytearray | None:
        async with self._large_requests:
            return await self._answer_decoded_parts(asked, served, division, parts, context)

    async def _answer_decoded_parts(
        self,
        asked: _Asked,
        served: ServedApi,
        division: Division,
        parts: Iterator[Message],
        context: RequestContext,
    ) -> bytearray | None:
        responses: list[Message] = []
        for part in parts:
            response = await self._result(asked, self._call(asked, served, part, context))
            if response is None or not hasattr(response, division.answered):
                return self._finish(asked, None, None)
            asked.stats.count_errors(response)
            responses.append(response)
            if asked.connection.closed:
                return None
            await self._services.scheduler.checkpoint(Priority.REQUEST)
        asked.stats.answered(asked.begun_ns)
        return await self._thread.run(lambda: self._encoded(asked, merge(division, responses)))

    def _answer_promised(
        self, connection: Connection, reply: PendingResponse, asked: _Asked, promised: asyncio.Future[Message]
    ) -> None:
        if promised.cancelled():
            connection.close()
            return
        error = promised.exception()
        response = promised.result() if error is None else self._error_response(asked, error)
        if (answer := self._encode(asked, response)) is not None:
            reply.send((answer,))
        else:
            connection.close()

    def _encode(self, asked: _Asked, response: Message | None) -> bytearray | None:
        """The frame to send; None when there is none to send and the connection must be closed."""
        return self._finish(asked, response, self._encoded(asked, response))

    def _finish(self, asked: _Asked, response: Message | None, answer: bytearray | None) -> bytearray | None:
        asked.stats.answered(asked.begun_ns)
        if response is None:
            asked.stats.failed(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            asked.stats.count_errors(response)
        return answer

    def _encoded(self, asked: _Asked, response: Message | None) -> bytearray | None:
        api, version, correlation_id, *_ = asked
        if response is None:
            return None
        out = bytearray(FRAME_HEAD.size)
        if version >= api.flexible_from and api.key != API_VERSIONS_KEY:
            out.append(0)
        try:
            response.write(out, version)
        except ProtocolError:
            # Our own fault, and not the client's: its request was fine.
            logger.exception("the answer to %s v%d cannot be encoded", api.name, version, extra=asked.ids)
            return None
        FRAME_HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
        return out

    # -- errors ----------------------------------------------------------------------------------------------

    def _refuse_version(
        self, connection: Connection, served: ServedApi, version: int, correlation_id: int
    ) -> None:
        """ApiVersions is answered in v0, so that the client learns what to use; anything else is a fault."""
        api = served.api
        if api.key != API_VERSIONS_KEY:
            raise ProtocolError(
                f"{api.name} v{version} is not served; v{api.min_version} to v{api.max_version} are"
            )
        assert served.handle is not None
        response = served.handle(self._services, api.request(), RequestContext(api_version=0))
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        stats = self._requests.of(api.name)
        asked = _Asked(api, 0, correlation_id, stats, stats.now_ns(), connection, client_id=None)
        answer = self._encode(asked, response)
        assert answer is not None
        connection.send(answer)

    def _error_response(self, asked: _Asked, error: BaseException) -> Message | None:
        """The API's answer for an exception, or None when its response has no place for an error."""
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        else:
            logger.error("%s failed", asked.api.name, exc_info=error, extra=asked.ids)
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed; its log has the reason"
        response = asked.api.response()
        if not hasattr(response, "error_code"):
            return None
        response.error_code = code
        if hasattr(response, "error_message"):
            response.error_message = message
        return response


def _decode(served: ServedApi, body: bytes | memoryview, version: int) -> tuple[Message, int]:
    """The request and the number of its array elements; runs in a thread if the request is large."""
    api = served.api
    try:
        # Bytes behind the request are let pass, as Kafka does: librdkafka has sent some (Metadata v13).
        return api.request.read_bounded(body, version, served.bound.max_elements)
    except ProtocolError as error:
        raise ProtocolError(f"malformed {api.name} request v{version}: {error}") from error


def _skip_header_tags(buf: bytearray, pos: int, end: int) -> int:
    """Step over the tagged fields of a flexible header; clients send none today."""
    if pos >= end:
        raise ProtocolError("the request header is cut")
    try:
        count, pos = read_uvarint(buf, pos)
        if count > MAX_HEADER_TAGS:
            raise ProtocolError(f"it has {count} tagged fields; {MAX_HEADER_TAGS} are allowed")
        tag = -1
        for _ in range(count):
            tag, _, pos = read_tag(buf, pos, end, tag)
    except ProtocolError as error:
        raise ProtocolError(f"malformed request header: {error}") from error
    except IndexError:
        raise ProtocolError("the request header is cut") from None
    return pos
