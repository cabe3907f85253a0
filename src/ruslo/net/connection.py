"""The connection of one client: splits received bytes into frames and sends responses in request order.

* A frame is passed to the handler as positions in the receive buffer, valid only during the call. A handler
  that cannot respond at once copies what it needs and keeps the ``PendingResponse`` it got from ``defer``.
* Responses are sent in request order. While no earlier response is pending, a response goes straight to the
  send queue; otherwise it waits at its place in ``_pending``.
* A request is handled when every request before it has its response, as in Kafka: its response must not be
  older than theirs. Requests of one pipeline (see ``admit``) follow each other without that wait.
* While a request is held back the connection goes on reading, as far as its buffer has room, because that is
  how it notices that the client disconnects. The idle sweep checks connections that do not read.
* The connection does not read from a client that does not read its responses or has too many pending.
* On a SASL listener another handler gets the frames until the client is authenticated, and again when its
  session has expired. It serves only the requests of the authentication, and small ones.
"""

from __future__ import annotations

import asyncio
import logging
import select
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from ruslo.model.errors import ProtocolError
from ruslo.model.log_ids import log_ids
from ruslo.model.principals import ANONYMOUS, Principal
from ruslo.net.foreign_protocols import DETECTION_BYTES, foreign_protocol
from ruslo.net.pending_response import PendingResponse
from ruslo.net.receive_buffer import ReceiveBuffer
from ruslo.net.request_memory import LARGE_FRAME_BYTES, RequestMemory
from ruslo.net.sasl.server_exchange import Authenticated, ServerExchange
from ruslo.net.send_queue import Chunk, SendQueue
from ruslo.net.tls.errors import TlsError

logger = logging.getLogger(__name__)

UNKNOWN_SOFTWARE = ("unknown", "unknown")
"""What Kafka assumes of clients that do not send their name and version."""
MAX_PENDING_RESPONSES = 64
MAX_UNSENT_CHUNKS = 64
"""Responses are sent when this many chunks are queued, even if more requests are in the buffer."""

NOT_BLOCKED = MAX_PENDING_RESPONSES


class FrameHandler(Protocol):
    def __call__(self, connection: Connection, buf: bytearray, start: int, end: int) -> bool:
        """Handle the request in ``buf[start:end]``; a ProtocolError closes the connection.

        False: the connection does not admit the request yet. It passes the frame again when it does.
        """
        ...


class ConnectionOwner(Protocol):
    """The server, which is notified when connections begin and end."""

    @property
    def frame_handler(self) -> FrameHandler:
        """The handler of the frames of authenticated clients."""
        ...

    @property
    def unauthenticated_handler(self) -> FrameHandler:
        """The handler of frames on a SASL listener before the client is authenticated."""
        ...

    @property
    def max_frame_bytes(self) -> int:
        """The largest frame of an authenticated client."""
        ...

    def connection_opened(self, connection: Connection) -> bool:
        """Return whether the connection may stay."""
        ...

    def tls_established(self, connection: Connection, session: ssl.SSLObject) -> Principal:
        """Return the principal that the client's certificate stands for. Raises TlsError."""
        ...

    def protocol_violated(self, connection: Connection, error: ProtocolError | TlsError) -> None:
        """The client sent an invalid request: its connection is being closed."""
        ...

    def authentication_succeeded(self, connection: Connection) -> None: ...

    def authentication_failed(self, connection: Connection, mechanism: str, reason: str) -> None: ...

    def connection_closed(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_blocked",
        "_closing",
        "_eof",
        "_finishing",
        "_handle_frame",
        "_max_frame_bytes",
        "_max_unanswered",
        "_mute_timer",
        "_out",
        "_owner",
        "_peer_finished",
        "_pending",
        "_pipeline",
        "_queue",
        "_read_paused",
        "_received",
        "_session_timer",
        "_transport",
        "_when_lost",
        "active",
        "client_software",
        "exchange",
        "listener_name",
        "peer_host",
        "peer_port",
        "principal",
        "session",
    )
    _queue: SendQueue

    def __init__(
        self,
        owner: ConnectionOwner,
        listener_name: str,
        memory: RequestMemory,
        exchange: ServerExchange | None = None,
    ) -> None:
        """``exchange``: how the client authenticates on a SASL listener."""
        self._owner = owner
        self.exchange = exchange
        if exchange is None:
            self._handle_frame, self._max_frame_bytes = owner.frame_handler, owner.max_frame_bytes
        else:
            self._handle_frame, self._max_frame_bytes = (
                owner.unauthenticated_handler,
                exchange.max_message_bytes,
            )
        self.principal = ANONYMOUS
        self.session: Any = None
        """What the frame handler keeps about this client."""
        self._session_timer: asyncio.TimerHandle | None = None
        self._mute_timer: asyncio.TimerHandle | None = None
        self.listener_name = listener_name
        self.peer_host = "?"
        self.peer_port = 0
        self.client_software = UNKNOWN_SOFTWARE
        """Name and version that the client sent with ApiVersions (KIP-511)."""
        self.active = True
        """Set when bytes are received or sent; the server's idle sweep clears it."""
        self._transport: asyncio.Transport | None = None
        self._received = ReceiveBuffer(memory, self._resume_later)
        self._out: deque[Chunk] = deque()
        """The chunks of ``_queue``."""
        self._pending: deque[PendingResponse] = deque()
        self._pipeline = ""
        """The pipeline of all requests in ``_pending``; empty if it holds one request without a pipeline."""
        self._blocked = False
        """No request is handled: one waits for the responses before it, or the client reads no responses."""
        self._max_unanswered = NOT_BLOCKED
        """The next request is handled when at most this many are unanswered."""
        self._read_paused = False
        self._eof = False
        self._peer_finished = False
        """The client sends nothing more, whether or not all that it sent has been read."""
        self._closing = False
        self._finishing = False
        """No further request is handled; the connection closes when every response is sent."""
        self._when_lost: Callable[[], None] | None = None

    # -- lifecycle -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        self._queue = SendQueue(self._transport)
        self._out = self._queue.chunks
        if not self._owner.connection_opened(self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._queue.close()
        self._transport = None
        for timer in (self._session_timer, self._mute_timer):
            if timer is not None:
                timer.cancel()
        self._session_timer = self._mute_timer = None
        while self._pending:
            self._pending.popleft().abandon()
        self._received.close()
        self._owner.connection_closed(self)
        if self._when_lost is not None:
            self._when_lost()

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call it once the connection has ended, or now if it has; it replaces an earlier callback."""
        if self._closing and self._transport is None:
            callback()
        else:
            self._when_lost = callback

    def close(self) -> None:
        """Close once the complete responses are sent; read nothing more."""
        self._closing = True
        if self._transport is not None:
            if self._out:
                self._pause_reading()
            else:
                self._transport.close()

    def finish(self) -> None:
        """Handle no further request, and close once every response is sent, even those still to come."""
        self._finishing = self._blocked = True
        self._pause_reading()
        if not self._pending and not self._out:
            self.close()

    def abort(self) -> None:
        self._closing = True
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, error: ProtocolError) -> None:
        """Close the connection: the client sent an invalid request."""
        self._owner.protocol_violated(self, error)
        self.close()

    # -- authentication --------------------------------------------------------------------------------------

    def tls_established(self, session: ssl.SSLObject) -> None:
        self.principal = self._owner.tls_established(self, session)

    def tls_failed(self, error: TlsError, received: bytes) -> None:
        foreign = foreign_protocol(received, tls=True) if received else None
        self._owner.protocol_violated(self, error if foreign is None else TlsError(foreign))

    def login_failed(self, mechanism: str, reason: str) -> None:
        """Log that the client failed to authenticate."""
        self._owner.authentication_failed(self, mechanism, reason)

    def expect(self, max_message_bytes: int) -> None:
        """Receive larger messages: the client has chosen its SASL mechanism."""
        if self._handle_frame == self._owner.unauthenticated_handler:
            self._max_frame_bytes = max_message_bytes

    def receive_with(self, handle_frame: FrameHandler) -> None:
        """Pass the next frames to this handler."""
        self._handle_frame = handle_frame

    def authenticated(self, result: Authenticated) -> None:
        """Serve the client as this principal, until its session expires."""
        self._owner.authentication_succeeded(self)
        self.principal = result.principal
        # The permissions and quotas of the requests before the authentication are those of User:ANONYMOUS.
        self.session = None
        self._handle_frame, self._max_frame_bytes = self._owner.frame_handler, self._owner.max_frame_bytes
        if self._session_timer is not None:
            self._session_timer.cancel()
            self._session_timer = None
        if result.session_ms:
            self._session_timer = asyncio.get_running_loop().call_later(
                result.session_ms / 1000, self._session_expired
            )

    def _session_expired(self) -> None:
        """Accept only another authentication (KIP-368); any other request closes the connection."""
        assert self.exchange is not None
        self._session_timer = None
        self._handle_frame = self._owner.unauthenticated_handler
        self._max_frame_bytes = self.exchange.max_message_bytes

    # -- state -----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._transport is None

    @property
    def awaits_login(self) -> bool:
        """Whether the client of a SASL listener has not authenticated yet."""
        return self.exchange is not None and self.exchange.identity is None

    @property
    def peer(self) -> str:
        """The client's address, for the log."""
        return f"{self.peer_host}:{self.peer_port}"

    @property
    def pending_responses(self) -> int:
        """The number of requests that were handled and have no response yet."""
        return len(self._pending)

    # -- receiving -------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        received = self._received
        if received.end == received.capacity:
            received.make_room()
        return received.view[received.end :]

    def buffer_updated(self, nbytes: int) -> None:
        received = self._received
        received.end += nbytes
        self.active = True
        self._process()
        if received.end == received.capacity:
            if self._blocked:
                self._pause_reading()
            if received.capacity >= LARGE_FRAME_BYTES and not (self._closing or received.take_memory()):
                self._pause_reading()

    def eof_received(self) -> bool:
        """The client sends nothing more: stay open only for its requests that are held back."""
        self._eof = True
        self._abandon_waiting()
        return self._blocked

    def _process(self) -> None:
        """Pass every complete frame in the buffer to the handler, then send the responses."""
        received = self._received
        buf = received.data
        start = received.start
        end = received.end
        try:
            while end - start >= 4 and not (self._blocked or self._closing):
                size = int.from_bytes(buf[start : start + 4], "big", signed=True)
                if size < 0 or size > self._max_frame_bytes:
                    raise ProtocolError(
                        self._size_error(size, bytes(buf[start : min(end, start + DETECTION_BYTES)]))
                    )
                frame_end = start + 4 + size
                if frame_end > end:
                    break
                if not self._handle_frame(self, buf, start + 4, frame_end):
                    self._block(max_unanswered=0)
                    break
                start = frame_end
                if len(self._out) >= MAX_UNSENT_CHUNKS:
                    self._flush()
                if len(self._pending) >= MAX_PENDING_RESPONSES:
                    self._block(max_unanswered=MAX_PENDING_RESPONSES // 2 - 1)
                if self._peer_finished:
                    self._abandon_waiting()
        except ProtocolError as error:
            self.refuse(error)
        except Exception:
            # It is unknown how far the handler came: its frame must not be handled again, and the client must
            # not wait for the response. The event loop reports the error; it would go on by itself.
            self.abort()
            raise
        finally:
            if start == end:
                received.start = received.end = 0
            else:
                received.start = start
            if received.memory_bytes and self._transport is not None:
                received.give_memory_back()
            if self._out:
                self._flush()

    def _size_error(self, size: int, beginning: bytes) -> str:
        foreign = foreign_protocol(beginning)
        if foreign is not None:
            return foreign
        if self._handle_frame == self._owner.frame_handler:
            limit = f"the limit is socket.request.max.bytes={self._max_frame_bytes}"
        else:
            limit = f"the limit before the client is authenticated is {self._max_frame_bytes}"
        return f"received a frame size of {size} bytes; {limit}"

    def _pause_reading(self) -> None:
        if not self._read_paused and self._transport is not None:
            self._read_paused = True
            self._transport.pause_reading()

    def _block(self, *, max_unanswered: int) -> None:
        """Handle the next request when at most this many are unanswered."""
        self._blocked = True
        self._max_unanswered = max_unanswered

    def _can_resume(self) -> bool:
        """Whether nothing blocks the next request any more."""
        return (
            not (self._queue.paused or self._closing or self._finishing or self._received.waits_for_memory)
            and self._mute_timer is None
            and len(self._pending) <= self._max_unanswered
        )

    def mute(self, time_ms: int) -> None:
        """Handle no request for this time: the client exceeds a quota (KIP-219)."""
        if self._transport is None:
            return
        self._blocked = True
        self._pause_reading()
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        self._mute_timer = asyncio.get_running_loop().call_later(time_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._mute_timer = None
        self._resume_later()

    def _resume_later(self) -> None:
        if self._can_resume():
            # Not inline: the caller may be inside handle_frame.
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        """Handle the frames that are in the buffer already, which no read will bring; then read on."""
        if not self._can_resume():
            return
        self._blocked = False
        self._max_unanswered = NOT_BLOCKED
        self._process()
        if self._blocked or self._closing:
            return
        if self._eof:
            self.close()
        elif self._read_paused and self._transport is not None:
            self._read_paused = False
            self._transport.resume_reading()

    # -- idle connections and clients that disconnect --------------------------------------------------------

    @property
    def holds_memory(self) -> bool:
        """Whether memory is taken for a request that has not arrived completely."""
        return self._received.holds_memory

    def shrink_if_idle(self) -> bool:
        """Called by the idle sweep: whether nothing was received or sent since the last call."""
        if self.active:
            self.active = False
            return False
        self._received.shrink()
        return True

    def check_peer(self) -> None:
        """Called by the idle sweep: a connection that does not read does not notice that its client left."""
        if self._transport is None or not (self._read_paused or self._eof):
            return
        sock = self._transport.get_extra_info("socket")
        if sock is None:  # Not a real transport.
            return
        kernel = select.poll()
        kernel.register(sock.fileno(), select.POLLRDHUP)
        for _, events in kernel.poll(0):
            if events & (select.POLLHUP | select.POLLERR):
                self.abort()
            else:
                self._abandon_waiting()

    def _abandon_waiting(self) -> None:
        """The client sends nothing more: abandon requests that only wait; those with an effect go on."""
        self._peer_finished = True
        for response in self._pending:
            if response.on_abandoned is not None:
                response.abandon()
        self.release_responses()

    # -- responses -------------------------------------------------------------------------------------------

    def send(self, chunk: Chunk) -> None:
        """Respond to the request being handled with one chunk. Only from within ``handle_frame``."""
        if self._pending:
            self.defer().send((chunk,))
        else:
            self._out.append(chunk)

    def send_all(self, chunks: Sequence[Chunk]) -> None:
        """As ``send``, for a response of several chunks."""
        if self._pending:
            self.defer().send(chunks)
        else:
            self._out.extend(chunks)

    def admit(self, pipeline: str) -> bool:
        """Whether a request may be handled now: no request is unanswered, or only those of its pipeline.

        ``pipeline``: empty for a request that waits for all others, and that all others wait for.
        """
        if self._pending and not (pipeline and pipeline == self._pipeline):
            return False
        self._pipeline = pipeline
        return True

    def defer(self) -> PendingResponse:
        """Keep the place of this request in the order, to respond later."""
        response = PendingResponse(self)
        self._pending.append(response)
        return response

    def hold(self) -> PendingResponse:
        """As ``defer``; the next request, even of the same pipeline, is handled when all have a response."""
        self._pipeline = ""
        return self.defer()

    def release_responses(self) -> None:
        """Send the responses that are complete, up to the first that is not."""
        pending = self._pending
        if not pending or pending[0].chunks is None:
            return
        while pending and (chunks := pending[0].chunks) is not None:
            pending.popleft()
            self._out.extend(chunks)
        self._flush()
        if self._blocked or self._read_paused:
            self._resume_later()

    # -- sending ---------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._queue.paused = True

    def resume_writing(self) -> None:
        self._queue.paused = False
        self.active = True
        self._flush()
        if self._blocked or self._read_paused:
            self._resume_later()

    def _flush(self) -> None:
        """Send until the queue is empty or the socket takes no more."""
        if self._transport is None:
            return
        try:
            is_empty = self._queue.flush()
        except (ConnectionError, TimeoutError):
            self.abort()
        except OSError as error:
            # The size of the frame is sent already: only closing can tell the client.
            ids = log_ids(connection=self.peer)
            logger.error("closing a connection: reading a segment failed: %s", error, extra=ids)
            self.abort()
        else:
            if not is_empty:
                # A client that does not read is not read from: its next requests wait in the kernel.
                self._blocked = True
                self._pause_reading()
            elif self._closing or (self._finishing and not self._pending):
                self._transport.close()
