"""One client's connection: cuts frames out of a reused buffer, sends replies in the order of the requests.

The rules that keep it flat and bounded:

* A frame is handed to the handler as positions in the receive buffer, valid only during the call. A handler
  that cannot answer at once copies what it needs and keeps the ``Reply`` it got from ``defer``.
* Replies leave in request order. While no earlier reply is outstanding, an answer goes straight to the
  output; otherwise it waits in its place in ``_pending``.
* A request is carried out when every request before it has been answered, as in Kafka: its answer must not
  be older than theirs. Requests of one pipeline (see ``admit``) follow each other without that wait.
* While a request is held back the connection reads on, as far as its buffer has room, because that is how it
  learns that the client has gone. A connection that is not read from is looked at by the idle sweep.
* The receive buffer starts small and grows only as bytes really arrive, never because a length field says
  so. It is replaced, not resized, because a live memoryview forbids resizing.
* Record data is sent from the file by ``sendfile``; a slow reader therefore costs a file descriptor, not
  memory. Few records are read instead and leave in one write with what surrounds them: each write wakes the
  reader, who can do nothing with half an answer. The transport's write buffer is limited to zero, so between
  callbacks it is either empty, and the socket may be written directly, or the connection is paused.
* The memory of frames above a megabyte is counted over all connections (``request_memory``); where there is
  none left, the connection is not read from until there is.
* A client that does not read its replies, or that has too many requests waiting, is not read from either.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias, cast

from ruslo.model.errors import ProtocolError
from ruslo.model.log_ids import log_ids
from ruslo.net.foreign_protocols import LOOKED_AT_BYTES, foreign_protocol
from ruslo.net.request_memory import LARGE_FRAME_BYTES, RequestMemory

logger = logging.getLogger(__name__)

INITIAL_BUFFER_BYTES = 8 * 1024
IDLE_BUFFER_BYTES = 64 * 1024
"""A buffer larger than this goes back to its first size when the connection falls idle."""
KEPT_BUFFER_BYTES = 4 * 1024 * 1024
"""A buffer larger than this goes back to its first size with the request that needed it."""
MAX_PENDING_REPLIES = 64
MAX_UNSENT_CHUNKS = 64
"""So many answers are gathered before they are sent, also when more requests are in the buffer."""
SENDFILE_CHUNK_BYTES = 4 * 1024 * 1024
JOINED_RANGE_BYTES = 16 * 1024
"""File ranges up to this size are copied, which costs less than a call of their own."""
WAKE_CHUNK_BYTES = 64 * 1024


NO_DESCRIPTOR = -1
NOT_HELD = MAX_PENDING_REPLIES


class OpenFile(Protocol):
    def fileno(self) -> int: ...


class FileRange(Protocol):
    """Bytes of an open file. Whoever holds it keeps the file readable, even after it was unlinked."""

    @property
    def file(self) -> OpenFile: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    def read(self) -> bytes: ...


Chunk: TypeAlias = bytes | bytearray | FileRange


class FrameHandler(Protocol):
    def __call__(self, connection: Connection, buf: bytearray, start: int, end: int) -> bool:
        """Answer the request in ``buf[start:end]``; a ProtocolError closes the connection.

        False: the connection does not admit the request yet, and offers it again when it does.
        """
        ...


class ConnectionOwner(Protocol):
    """Who is told of a connection's beginning and end, and why it ends."""

    def connection_opened(self, connection: Connection) -> bool:
        """Whether the connection may stay."""
        ...

    def protocol_violated(self, connection: Connection, error: ProtocolError) -> None:
        """The client sent what is not a request: its connection is being closed."""
        ...

    def connection_closed(self, connection: Connection) -> None: ...


class Reply:
    """The place of one deferred answer in its connection's order."""

    __slots__ = ("_chunks", "_connection", "on_abandoned")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chunks: Sequence[Chunk] | None = None
        self.on_abandoned: Callable[[], None] | None = None
        """Called if the client goes before it was answered, so that nothing is kept for it. Only a request
        that waits without any effect has one."""

    @property
    def ready(self) -> bool:
        return self._chunks is not None

    @property
    def abandoned(self) -> bool:
        """The client has gone and will not read the response."""
        return self._chunks is not None or self._connection.closed

    def abandon(self) -> None:
        """Give the place up without an answer: the client has gone."""
        self._chunks = ()
        abandoned, self.on_abandoned = self.on_abandoned, None
        if abandoned is not None:
            abandoned()

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Answer now; an empty sequence gives the place up without an answer."""
        # What waits for a request knows its reply: with this reference left, the two would be a cycle.
        self.on_abandoned = None
        self._chunks = chunks
        self._connection.release_replies()

    def take(self) -> Sequence[Chunk]:
        assert self._chunks is not None
        return self._chunks


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_blocked",
        "_buffer",
        "_capacity",
        "_closing",
        "_end",
        "_eof",
        "_handle_frame",
        "_hold_until",
        "_max_frame_bytes",
        "_memory",
        "_memory_bytes",
        "_out",
        "_owner",
        "_peer_finished",
        "_pending",
        "_pipeline",
        "_range_sent",
        "_read_paused",
        "_socket_fd",
        "_start",
        "_transport",
        "_view",
        "_waits_for_memory",
        "_when_lost",
        "_write_paused",
        "active",
        "listener_name",
        "peer_host",
        "peer_port",
    )

    def __init__(
        self,
        handle_frame: FrameHandler,
        owner: ConnectionOwner,
        listener_name: str,
        max_frame_bytes: int,
        memory: RequestMemory,
    ) -> None:
        self._handle_frame = handle_frame
        self._owner = owner
        self._max_frame_bytes = max_frame_bytes
        self._memory = memory
        self._memory_bytes = 0
        """Taken of ``memory`` for the frame that is arriving."""
        self._waits_for_memory = False
        self.listener_name = listener_name
        self.peer_host = "?"
        self.peer_port = 0
        self.active = True
        """Set when bytes came or went; the server's idle sweep clears it."""
        self._transport: asyncio.Transport | None = None
        self._socket_fd = NO_DESCRIPTOR
        self._buffer = bytearray(INITIAL_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._capacity = INITIAL_BUFFER_BYTES
        self._start = 0
        self._end = 0
        self._out: deque[Chunk] = deque()
        self._range_sent = 0
        self._pending: deque[Reply] = deque()
        self._pipeline = ""
        """Of the requests in ``_pending``: all have the same one, unless there is only one request."""
        self._blocked = False
        """No request is taken: one has to wait for the answers before it, or the client does not read any."""
        self._hold_until = NOT_HELD
        """Unanswered requests with which the next one may be taken."""
        self._write_paused = False
        self._read_paused = False
        self._eof = False
        self._peer_finished = False
        """The client sends nothing more, whether or not all that it sent has been read."""
        self._closing = False
        self._when_lost: Callable[[], None] | None = None

    # -- life ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        self._transport.set_write_buffer_limits(high=0, low=0)
        sock = transport.get_extra_info("socket")
        self._socket_fd = NO_DESCRIPTOR if sock is None else sock.fileno()
        if not self._owner.connection_opened(self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._out.clear()
        self._transport = None
        while self._pending:
            self._pending.popleft().abandon()
        if self._memory_bytes:
            self._give_memory_back()
        self._owner.connection_closed(self)
        if self._when_lost is not None:
            self._when_lost()

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call it once the connection has ended, whoever ended it; the last one given counts."""
        self._when_lost = callback

    def close(self) -> None:
        """Close once what was already answered has left; nothing more is read."""
        self._closing = True
        if self._transport is not None:
            if self._out:
                self._pause_reading()
            else:
                self._transport.close()

    def abort(self) -> None:
        self._closing = True
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def closed(self) -> bool:
        return self._transport is None

    @property
    def peer(self) -> str:
        """Which connection it is, for the log."""
        return f"{self.peer_host}:{self.peer_port}"

    @property
    def pending_replies(self) -> int:
        """Requests that were taken and are not answered yet."""
        return len(self._pending)

    # -- receiving -------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._end == self._capacity:
            self._make_room()
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self.active = True
        self._process()
        if self._blocked and self._end == self._capacity:
            self._pause_reading()
        if self._end == self._capacity >= LARGE_FRAME_BYTES:
            self._take_memory()

    def eof_received(self) -> bool:
        """The client sends nothing more: stay open only for requests that it sent and that are held back."""
        self._eof = True
        self._end_waits()
        return self._blocked

    def _process(self) -> None:
        """Hand over every whole frame in the buffer, then send what has been answered."""
        buf = self._buffer
        start = self._start
        end = self._end
        handle_frame = self._handle_frame
        try:
            while end - start >= 4 and not (self._blocked or self._closing):
                size = int.from_bytes(buf[start : start + 4], "big", signed=True)
                if size < 0 or size > self._max_frame_bytes:
                    raise ProtocolError(
                        self._frame_problem(size, bytes(buf[start : min(end, start + LOOKED_AT_BYTES)]))
                    )
                frame_end = start + 4 + size
                if frame_end > end:
                    break
                if not handle_frame(self, buf, start + 4, frame_end):
                    self._block(unanswered=0)
                    break
                start = frame_end
                if len(self._out) >= MAX_UNSENT_CHUNKS:
                    self._flush()
                if len(self._pending) >= MAX_PENDING_REPLIES:
                    self._block(unanswered=MAX_PENDING_REPLIES // 2 - 1)
                if self._peer_finished:
                    self._end_waits()
        except ProtocolError as error:
            self.refuse(error)
        except Exception:
            # Nobody knows how far the handler came: its frame must not be handled again, and the client must
            # not wait for the answer. The event loop reports it, and would go on when it called this itself.
            self.abort()
            raise
        finally:
            if start == end:
                self._start = self._end = 0
            else:
                self._start = start
            if self._memory_bytes:
                self._give_memory_back()
            if self._out:
                self._flush()

    def refuse(self, error: ProtocolError) -> None:
        """Close the connection: the client sent what is not a request."""
        self._owner.protocol_violated(self, error)
        self.close()

    def _frame_problem(self, size: int, beginning: bytes) -> str:
        return foreign_protocol(beginning) or (
            f"a frame of {size} bytes was announced; the limit (socket.request.max.bytes) is "
            f"{self._max_frame_bytes}"
        )

    def _make_room(self) -> None:
        """The buffer is full: move the unfinished frame to the front, or into a larger buffer."""
        start = self._start
        held = self._end - start
        if held * 2 > self._capacity:
            wanted = 4 + int.from_bytes(self._buffer[start : start + 4], "big") if held >= 4 else 0
            # At most four times what has arrived, so that a length alone allocates nothing much; one and a
            # half frames, so that the next pipelined frame does not have to be moved at once.
            self._replace_buffer(min(max(wanted + wanted // 2, self._capacity), held * 4))
        elif start:
            self._view[:held] = self._view[start : self._end]
            self._start, self._end = 0, held

    def _replace_buffer(self, capacity: int) -> None:
        held = self._end - self._start
        fresh = bytearray(capacity)
        fresh[:held] = self._view[self._start : self._end]
        self._buffer = fresh
        self._view = memoryview(fresh)
        self._capacity = capacity
        self._start, self._end = 0, held

    def _take_memory(self) -> None:
        """The buffer is full and must grow for a large frame: take the memory first, or stop reading."""
        if self._waits_for_memory or self._closing or (self._end - self._start) * 2 <= self._capacity:
            return
        size = 4 + int.from_bytes(self._buffer[self._start : self._start + 4], "big")
        missing = size - self._memory_bytes
        if missing <= 0:
            return
        if self._memory.take(missing, partial(self._memory_granted, missing)):
            self._memory_bytes = size
        else:
            self._waits_for_memory = True
            self._pause_reading()

    def _memory_granted(self, size: int) -> bool:
        """Called when there is memory again: whether the connection still wants it."""
        self._waits_for_memory = False
        if self._transport is None:
            return False
        self._memory_bytes += size
        self._resume_if_free()
        return True

    def _give_memory_back(self) -> None:
        """Give it back unless the rest of the frame, or of the next large one, is still to come."""
        if self._transport is not None:
            held = self._end - self._start
            if held > LARGE_FRAME_BYTES:
                return
            if self._capacity > KEPT_BUFFER_BYTES:
                self._replace_buffer(max(2 * held, INITIAL_BUFFER_BYTES))
        size, self._memory_bytes = self._memory_bytes, 0
        self._memory.give_back(size)

    @property
    def holds_memory(self) -> bool:
        """Whether it has taken memory for a frame that has not arrived whole."""
        return self._memory_bytes > 0 and not self._waits_for_memory

    def shrink_if_idle(self) -> bool:
        """Called by the idle sweep: whether nothing came or went since the last call."""
        if self.active:
            self.active = False
            return False
        if self._capacity > IDLE_BUFFER_BYTES and self._end == 0:
            self._replace_buffer(INITIAL_BUFFER_BYTES)
        return True

    def _pause_reading(self) -> None:
        if not self._read_paused and self._transport is not None:
            self._read_paused = True
            self._transport.pause_reading()

    def _block(self, *, unanswered: int) -> None:
        """Take the next request when at most so many are unanswered."""
        self._blocked = True
        self._hold_until = unanswered

    def _is_free(self) -> bool:
        """Whether nothing stands in the way of the next request any more."""
        return (
            not (self._write_paused or self._closing or self._waits_for_memory)
            and len(self._pending) <= self._hold_until
        )

    def _resume_if_free(self) -> None:
        if self._is_free():
            # Not inline: we may be inside handle_frame.
            asyncio.get_running_loop().call_soon(self._take_held)

    def _take_held(self) -> None:
        """Hand over what is in the buffer already, which brings no new read; then read on."""
        if not self._is_free():
            return
        self._blocked = False
        self._hold_until = NOT_HELD
        self._process()
        if self._blocked or self._closing:
            return
        if self._eof:
            self.close()
        elif self._read_paused and self._transport is not None:
            self._read_paused = False
            self._transport.resume_reading()

    # -- a client that went ----------------------------------------------------------------------------------

    def look_for_end(self) -> None:
        """Called by the idle sweep: a connection that is not read from does not hear that its client went."""
        if self._transport is None or self._socket_fd == NO_DESCRIPTOR:
            return
        if not self._read_paused and not self._eof:
            return
        kernel = select.poll()
        kernel.register(self._socket_fd, select.POLLRDHUP)
        for _, events in kernel.poll(0):
            if events & (select.POLLHUP | select.POLLERR):
                self.abort()
            else:
                self._end_waits()

    def _end_waits(self) -> None:
        """The client sends nothing more: what only waits for it is given up, what has an effect goes on."""
        self._peer_finished = True
        for reply in self._pending:
            if reply.on_abandoned is not None:
                reply.abandon()
        self.release_replies()

    # -- answering -------------------------------------------------------------------------------------------

    def send(self, chunk: Chunk) -> None:
        """Answer the request being handled with one chunk. Only from within ``handle_frame``."""
        if self._pending:
            self.defer().send((chunk,))
        else:
            self._out.append(chunk)

    def send_all(self, chunks: Sequence[Chunk]) -> None:
        """As ``send``, for an answer of several chunks."""
        if self._pending:
            self.defer().send(chunks)
        else:
            self._out.extend(chunks)

    def admit(self, pipeline: str) -> bool:
        """Whether a request may be carried out now: no request is unanswered, or only those of its pipeline.

        ``pipeline``: empty for a request that waits for all others, and that all others wait for.
        """
        if self._pending and not (pipeline and pipeline == self._pipeline):
            return False
        self._pipeline = pipeline
        return True

    def defer(self) -> Reply:
        """Keep this request's place in the order; answer later through the Reply."""
        reply = Reply(self)
        self._pending.append(reply)
        return reply

    def hold(self) -> Reply:
        """As ``defer``; and the next request is taken, of the same pipeline too, when all are answered."""
        self._pipeline = ""
        return self.defer()

    def release_replies(self) -> None:
        pending = self._pending
        if not pending or not pending[0].ready:
            return
        while pending and pending[0].ready:
            self._out.extend(pending.popleft().take())
        self._flush()
        if self._blocked or self._read_paused:
            self._resume_if_free()

    # -- sending ---------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.active = True
        self._flush()
        if self._blocked or self._read_paused:
            self._resume_if_free()

    def _flush(self) -> None:
        """Send until the output is empty or the socket takes no more."""
        out = self._out
        transport = self._transport
        if transport is None:
            return
        while out and not self._write_paused:
            chunk = out[0]
            if isinstance(chunk, (bytes, bytearray)) or chunk.size <= JOINED_RANGE_BYTES:
                if not self._send_joined(transport):
                    return
            elif not self._send_range(transport, chunk):
                return
        if out:
            # A client that does not read is not read from: its next requests wait in the kernel, not here.
            self._blocked = True
            self._pause_reading()
        elif self._closing:
            transport.close()

    def _send_joined(self, transport: asyncio.Transport) -> bool:
        """Send what comes before the next large file range, at once; False when that failed for good."""
        out = self._out
        parts: list[bytes | bytearray] = []
        copied = 0
        while out and copied <= JOINED_RANGE_BYTES:
            chunk = out[0]
            if isinstance(chunk, (bytes, bytearray)):
                parts.append(chunk)
            elif chunk.size <= JOINED_RANGE_BYTES:
                try:
                    data = self._read(chunk)
                    if len(data) < chunk.size:
                        raise _file_ends(chunk.size - len(data))
                except OSError as error:
                    self._reading_failed(error)
                    return False
                parts.append(data)
                copied += chunk.size
            else:
                break
            out.popleft()
        transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        return True

    def _send_range(self, transport: asyncio.Transport, chunk: FileRange) -> bool:
        """Send what the socket takes of a file range; False when the connection had to be given up."""
        if self._socket_fd == NO_DESCRIPTOR:
            self._out.popleft()
            transport.write(chunk.read())
            return True
        file_fd = chunk.file.fileno()
        size = chunk.size
        position = chunk.position
        sent = self._range_sent
        try:
            while sent < size and not self._write_paused:
                try:
                    count = os.sendfile(
                        self._socket_fd, file_fd, position + sent, min(size - sent, SENDFILE_CHUNK_BYTES)
                    )
                except BlockingIOError:
                    # The socket is full. Bytes given to the transport make the loop tell us when it is not.
                    data = os.pread(file_fd, min(size - sent, WAKE_CHUNK_BYTES), position + sent)
                    transport.write(data)
                    count = len(data)
                if count == 0:
                    raise _file_ends(size - sent)
                sent += count
        except (ConnectionError, TimeoutError):
            self.abort()
            return False
        except OSError as error:
            self._reading_failed(error)
            return False
        if sent == size:
            self._range_sent = 0
            self._out.popleft()
        else:
            self._range_sent = sent
        return True

    def _read(self, chunk: FileRange) -> bytes:
        if self._socket_fd == NO_DESCRIPTOR:
            # No socket of the kernel, as in the simulator, where files have no descriptors either.
            return chunk.read()
        return os.pread(chunk.file.fileno(), chunk.size, chunk.position)

    def _reading_failed(self, error: OSError) -> None:
        """The frame's length has been announced already: nothing but closing can tell the client."""
        logger.error(
            "closing a connection: reading a segment failed: %s", error, extra=log_ids(connection=self.peer)
        )
        self.abort()


def _file_ends(missing: int) -> OSError:
    return OSError(f"the file ends {missing} bytes before the range that was promised")
