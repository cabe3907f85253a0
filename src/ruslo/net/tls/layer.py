"""TLS between a transport and a protocol: it is the protocol's transport, and the network's protocol.

OpenSSL works on memory, not on the socket, because the event loop owns the socket. What arrives is decrypted
straight into the buffer of the protocol, as many TLS records at a time as it has room for. What the protocol
writes is encrypted and passed on at once, so the write buffer of the network's transport limits both.

A connection has no receive buffer for encrypted bytes: the event loop fills the buffer that ``get_buffer``
returns and calls ``buffer_updated`` before it reads from another connection, so all connections share one.

Handshakes of clients take turns with the connections that are open (``HandshakeQueue``).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from typing import Any, Protocol, cast

from ruslo.net.tls.errors import TlsError, explain
from ruslo.net.tls.handshake_queue import HandshakeQueue

RECEIVE_BYTES = 256 * 1024
HANDSHAKE_TIMEOUT_S = 15.0
_HANDSHAKE_RECORD = 0x16

_shared = threading.local()
"""The receive buffer and the handshake queue of each event loop, by its thread."""


class TlsProtocol(Protocol):
    """The protocol above: an ``asyncio.BufferedProtocol`` that learns how the handshake ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...

    def tls_established(self, session: ssl.SSLObject) -> None:
        """The handshake is complete: what the peer sends is delivered from now on. Raises TlsError."""
        ...

    def tls_failed(self, error: TlsError, received: bytes) -> None:
        """The handshake failed, or the peer broke the protocol; the connection is being closed.

        ``received``: the first bytes, if they are not TLS.
        """
        ...


class TlsLayer(asyncio.BufferedProtocol, asyncio.Transport):
    def __init__(
        self,
        above: TlsProtocol,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_hostname: str | None = None,
    ) -> None:
        super().__init__()
        self._above: TlsProtocol | None = above
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._server_side = server_side
        self._below: asyncio.Transport | None = None
        self._received = _receive_buffer()
        self._has_received = False
        self._established = False
        self._reading = True
        self._eof = False
        self._closing = False
        self._handshake_timer: asyncio.TimerHandle | None = None

    # -- the protocol of the network's transport -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop do not inherit from asyncio's.
        self._below = cast(asyncio.Transport, transport)
        assert self._above is not None
        self._above.connection_made(self)
        if self._closing:
            return
        self._handshake_timer = asyncio.get_running_loop().call_later(
            HANDSHAKE_TIMEOUT_S, self._fail, TlsError(f"no TLS handshake within {HANDSHAKE_TIMEOUT_S:.0f} s")
        )
        if not self._server_side:
            self._shake_hands()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._stop_timer()
        # Without these references the connection is freed at once, not by the collector.
        above, self._above, self._below = self._above, None, None
        if above is None:
            return
        if not self._established and exc is None:
            exc = ConnectionResetError("the peer closed the connection during the TLS handshake")
        above.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing and not self._established:
            return
        if not self._has_received:
            self._has_received = True
            if self._server_side and self._received[0] != _HANDSHAKE_RECORD:
                self._fail(
                    TlsError("the client does not speak TLS"), bytes(self._received[: min(nbytes, 64)])
                )
                return
        self._incoming.write(self._received[:nbytes])
        if self._established:
            self._deliver()
        elif not self._server_side:
            self.continue_handshake()
        else:
            # What the client sends in the meantime waits in the kernel, which bounds it.
            assert self._below is not None
            self._below.pause_reading()
            _handshake_queue().add(self)

    def eof_received(self) -> bool:
        return self._end_of_input()

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    # -- handshake -------------------------------------------------------------------------------------------

    def continue_handshake(self) -> None:
        """Process what the peer sent of its handshake, and what follows it."""
        if self._closing or self._above is None:
            return
        if self._shake_hands():
            self._deliver()
        if self._server_side and self._reading and not self._closing and self._below is not None:
            self._below.resume_reading()

    def _shake_hands(self) -> bool:
        """Continue the handshake as far as possible; returns whether it is complete."""
        try:
            self._session.do_handshake()
            self._stop_timer()
            self._established = True
            self._flush()
            assert self._above is not None
            self._above.tls_established(self._session)
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            # OpenSSL has written an alert for the peer.
            self._flush()
            self._fail(explain(error))
            return False
        except TlsError as error:
            self._fail(error)
            return False
        return True

    def _fail(self, error: TlsError, received: bytes = b"") -> None:
        if self._above is not None and not self._closing:
            self._above.tls_failed(error, received)
            self._closing = True
            if self._below is not None:
                # Not abort: an alert may still be in the transport.
                self._below.close()

    def _stop_timer(self) -> None:
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
            self._handshake_timer = None

    # -- receiving -------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Decrypt into the buffer of the protocol until nothing is left, or the protocol pauses reading."""
        # With a buffer it returns the number of bytes; its type describes only the other form.
        read: Any = self._session.read
        incoming = self._incoming
        while self._reading and self._above is not None:
            view = self._above.get_buffer(-1)
            room, filled = len(view), 0
            try:
                while filled < room:
                    count = read(room - filled, view[filled:])
                    if count == 0:
                        self._eof = True
                        break
                    filled += count
                    if not incoming.pending and not self._session.pending():
                        break
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:
                self._eof = True
            except ssl.SSLError as error:
                # A record that was tampered with, or garbage: nothing after it can be trusted.
                self._flush()
                self._fail(explain(error))
                return
            if self._outgoing.pending:
                # The response to a key update.
                self._flush()
            if filled:
                self._above.buffer_updated(filled)
            if self._eof:
                if not self._end_of_input():
                    self.close()
                return
            if filled < room:
                return

    def _end_of_input(self) -> bool:
        """The peer sends nothing more; returns whether the connection stays open for writing."""
        self._eof = True
        if self._above is None or not self._established:
            return False
        return bool(self._above.eof_received())

    # -- the transport of the protocol -----------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._below is None or self._closing:
            return
        # OpenSSL divides the data into records and, writing to memory, never stops halfway.
        self._session.write(data)
        self._below.write(self._outgoing.read())

    def _flush(self) -> None:
        if self._below is not None and self._outgoing.pending:
            self._below.write(self._outgoing.read())

    def pause_reading(self) -> None:
        self._reading = False
        if self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._reading or self._below is None:
            return
        self._reading = True
        # First what was received already, which no further read brings.
        if self._established:
            self._deliver()
        if self._reading and self._below is not None and not self._closing:
            self._below.resume_reading()

    def is_reading(self) -> bool:
        return self._reading

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._below is not None:
            self._below.set_write_buffer_limits(high=high, low=low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._session
        return default if self._below is None else self._below.get_extra_info(name, default)

    def close(self) -> None:
        """Close once everything written is sent, after TLS's own end of the stream."""
        self._closing = True
        if self._below is None:
            return
        if self._established:
            with contextlib.suppress(ssl.SSLError):
                # It is written; the answer of the peer is not awaited.
                self._session.unwrap()
            self._flush()
        self._below.close()

    def abort(self) -> None:
        self._closing = True
        if self._below is not None:
            self._below.abort()


def _handshake_queue() -> HandshakeQueue:
    loop = asyncio.get_running_loop()
    queue: HandshakeQueue | None = getattr(_shared, "handshakes", None)
    if queue is None or queue.loop is not loop:
        # Tests run several loops in a thread, one after the other.
        queue = _shared.handshakes = HandshakeQueue(loop)
    return queue


def _receive_buffer() -> memoryview:
    buffer: memoryview | None = getattr(_shared, "buffer", None)
    if buffer is None:
        buffer = _shared.buffer = memoryview(bytearray(RECEIVE_BYTES))
    return buffer
