"""The reader and the writer of an HTTP connection, directly on the socket or on the TLS layer.

asyncio's own TLS cannot replace the certificates of an open listener; ``TlsLayer`` can, but it fills buffers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from ruslo.net.tls.errors import TlsError

_RECEIVE_BYTES = 16 * 1024


class HttpStreams(asyncio.StreamReaderProtocol):
    """A connection; with TLS it is the protocol above ``TlsLayer``."""

    def __init__(
        self,
        accepted: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
        failed: Callable[[str, TlsError, bytes], None],
        max_head_bytes: int,
    ) -> None:
        """``failed`` gets the address of a client that breaks TLS, the error, and bytes that are not TLS."""
        loop = asyncio.get_running_loop()
        super().__init__(asyncio.StreamReader(limit=max_head_bytes, loop=loop), accepted, loop=loop)
        self._failed = failed
        self._host = ""
        self._received = memoryview(bytearray())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self._host = peer[0] if peer else ""
        super().connection_made(transport)

    # -- the protocol above TLS ------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        if not self._received:
            self._received = memoryview(bytearray(_RECEIVE_BYTES))
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._received[:nbytes]))

    def tls_established(self, session: ssl.SSLObject) -> None:
        """A certificate that the trust store trusts is enough: the listener has no users."""

    def tls_failed(self, error: TlsError, received: bytes) -> None:
        self._failed(self._host, error, received)
