"""Splits the bytes that asyncio receives into length-prefixed frames."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from struct import Struct
from typing import cast

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.net.tls.errors import TlsError
from ruslo.net.tls.layer import TlsLayer

_SIZE = Struct(">i")
_SCRATCH_SIZE = 16 * 1024
_TLS_ALERT = 0x1503
_HTTP = int.from_bytes(b"HTTP")


class FrameProtocol(asyncio.BufferedProtocol):
    """Small frames pass through a reused buffer; a large one is received into memory of its own, not copied.

    The size of a frame is checked before memory is allocated for it.
    """

    def __init__(
        self,
        max_frame_bytes: int,
        on_frame: Callable[[ReadBuffer], None],
        on_lost: Callable[[Exception | None], None],
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._scratch = bytearray(_SCRATCH_SIZE)
        self._scratch_view = memoryview(self._scratch)
        self._filled = 0
        self._large: bytearray | None = None
        self._large_filled = 0
        self._failure: ProtocolError | TlsError | None = None
        self.transport: asyncio.Transport | None = None
        """Over TLS, the layer that encrypts."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._tls_ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop do not inherit from asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        if not isinstance(transport, TlsLayer):
            self._tls_ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        if not self._tls_ended.is_set():
            self._failure = self._failure or TlsError(
                "the broker closed the connection during the TLS handshake; check that the port is a TLS "
                "listener"
            )
            self._tls_ended.set()
        self._on_lost(self._failure or exc)

    def tls_established(self, session: ssl.SSLObject) -> None:
        self._tls_ended.set()

    def tls_failed(self, error: TlsError, received: bytes) -> None:
        self._failure = error
        self._tls_ended.set()

    async def tls_handshake(self) -> None:
        """Wait for the end of the TLS handshake; raises TlsError."""
        await self._tls_ended.wait()
        if isinstance(self._failure, TlsError):
            raise self._failure

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def drain(self) -> None:
        """Wait until the peer has read enough of what was written."""
        await self._writable.wait()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return self._scratch_view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._large is not None:
            self._large_filled += nbytes
            if self._large_filled == len(self._large):
                frame, self._large = self._large, None
                self._on_frame(frame)
            return
        self._filled += nbytes
        self._split()

    def _split(self) -> None:
        pos = 0
        while self._filled - pos >= 4:
            (size,) = _SIZE.unpack_from(self._scratch, pos)
            if not 4 <= size <= self._max_frame_bytes:
                self._refuse(size)
                return
            end = pos + 4 + size
            if end <= self._filled:
                self._on_frame(bytes(self._scratch_view[pos + 4 : end]))
                pos = end
            elif 4 + size > len(self._scratch):
                have = self._filled - pos - 4
                self._large = bytearray(size)
                self._large[:have] = self._scratch_view[pos + 4 : self._filled]
                self._large_filled = have
                self._filled = 0
                return
            else:
                break
        left = self._filled - pos
        if pos:
            self._scratch[:left] = self._scratch[pos : self._filled]
        self._filled = left

    def _refuse(self, size: int) -> None:
        self._failure = ProtocolError(
            f"the response size is {size} bytes, outside 4 to {self._max_frame_bytes}; {_likely_cause(size)}"
        )
        self._filled = 0
        assert self.transport is not None
        self.transport.abort()


def _likely_cause(size: int) -> str:
    """What the first four bytes of the response are, if they are not a size."""
    if size >> 16 == _TLS_ALERT:
        return "this is a TLS alert: set security.protocol=SSL or SASL_SSL, or use another listener"
    if size == _HTTP:
        return "this is HTTP: use the address of a Kafka broker"
    return "check that this is a Kafka broker, and security.protocol"
