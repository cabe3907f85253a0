"""From a frame to an answer: finds the API, decodes, calls the handler, encodes, translates errors.

Produce and Fetch take their own flat road (``handlers/produce.py``, ``handlers/fetch.py``): they read
positions in the receive buffer and answer within the same call. Every other API goes through the generated
codecs; its handler may be a coroutine.

Errors become answers only here. A KafkaError gets the response its API has for it; anything else is our own
fault: it is logged with a traceback and answered UNKNOWN_SERVER_ERROR. Where a response has no place for
an error the connection is closed, as Kafka does.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol

from ruslo.broker.metrics.api_stats import ApiStats, RequestStats, now_ns
from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import NodeServices
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.model.log_ids import log_ids
from ruslo.net.connection import Connection, Reply
from ruslo.protocol.apis import Api
from ruslo.protocol.message import Message
from ruslo.protocol.primitives import read_unknown_tags

logger = logging.getLogger(__name__)

REQUEST_HEAD = struct.Struct(">hhih")
FRAME_HEAD = struct.Struct(">ii")
API_VERSIONS_KEY = 18


class HotHandler(Protocol):
    """Produce and Fetch: bytes in the receive buffer to an answer on the connection, in one call."""

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None: ...


# Each handler has its own message types; what comes back is a response or an awaitable of one.
Handler = Callable[[Any, Any, RequestContext], Any]


@dataclass(frozen=True, slots=True)
class ServedApi:
    api: Api
    handle: Handler | None = None
    hot: HotHandler | None = None
    pipeline: str = ""
    """Requests of one pipeline are carried out while earlier ones of it wait for their answers. Any other
    request is carried out once everything before it on its connection has been answered."""


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
        asked = _Asked(api, version, correlation_id, stats, now_ns(), connection, client_id)
        try:
            # Bytes behind the request are let pass, as Kafka does: librdkafka has sent some (Metadata v13).
            request, _ = api.request.read(body, 0, version)
        except ProtocolError as error:
            raise ProtocolError(f"malformed {api.name} request v{version}: {error}") from error
        context = RequestContext(
            api_version=version,
            client_id=client_id,
            listener_name=connection.listener_name,
            peer_host=connection.peer_host,
            connection=connection,
        )
        assert served.handle is not None
        try:
            response = served.handle(self._services, request, context)
        except Exception as error:
            response = self._error_response(asked, error)
        if isinstance(response, asyncio.Future):
            # A driver's own promise needs no task around it: thousands of commits a second come this way.
            response.add_done_callback(partial(self._answer_promised, connection, connection.defer(), asked))
        elif isawaitable(response):
            task = asyncio.get_running_loop().create_task(
                self._answer_later(connection, connection.defer(), asked, response)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif (answer := self._encode(asked, response)) is not None:
            connection.send(answer)
        else:
            connection.close()

    def _answer_promised(
        self, connection: Connection, reply: Reply, asked: _Asked, promised: asyncio.Future[Message]
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

    async def _answer_later(
        self, connection: Connection, reply: Reply, asked: _Asked, pending: Awaitable[Message]
    ) -> None:
        response: Message | None
        try:
            response = await pending
        except Exception as error:
            response = self._error_response(asked, error)
        if (answer := self._encode(asked, response)) is not None:
            reply.send((answer,))
        else:
            connection.close()

    def _encode(self, asked: _Asked, response: Message | None) -> bytearray | None:
        """The frame to send; None when there is none to send and the connection must be closed."""
        api, version, correlation_id, stats, begun_ns, *_ = asked
        stats.answered(begun_ns)
        if response is None:
            stats.failed(ErrorCode.UNKNOWN_SERVER_ERROR)
            return None
        stats.count_errors(response)
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
        asked = _Asked(api, 0, correlation_id, stats, now_ns(), connection, client_id=None)
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


def _skip_header_tags(buf: bytearray, pos: int, end: int) -> int:
    """Step over the tagged fields of a flexible header; clients send none today."""
    if pos >= end:
        raise ProtocolError("the request header is cut")
    if buf[pos] == 0:
        return pos + 1
    try:
        return read_unknown_tags(buf, pos + 1, end, buf[pos])[1]
    except ProtocolError as error:
        raise ProtocolError(f"malformed request header: {error}") from error
    except IndexError:
        raise ProtocolError("the request header is cut") from None
