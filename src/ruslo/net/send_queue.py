"""The bytes that a connection has to send: response headers from memory, record data from files.

Record data is sent by ``sendfile``, so a client that reads slowly costs a file descriptor, not memory. Few
records are read instead and sent in one write with what surrounds them: each write wakes the client, which
can do nothing with a part of a response. Over TLS record data is read and encrypted piece by piece.

The transport's write buffer is limited to zero. Between callbacks it is either empty, and the socket may be
written directly, or writing is paused.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Protocol, TypeAlias

SENDFILE_CHUNK_BYTES = 4 * 1024 * 1024
JOINED_RANGE_BYTES = 16 * 1024
"""File ranges up to this size are copied, which costs less than a system call of their own."""
WAKE_CHUNK_BYTES = 64 * 1024
TLS_CHUNK_BYTES = 256 * 1024

NO_DESCRIPTOR = -1
_NO_TRANSPORT = asyncio.Transport()
"""The transport of a closed connection."""


class OpenFile(Protocol):
    def fileno(self) -> int: ...


class FileRange(Protocol):
    """Bytes of an open file. A reference to it keeps the file readable, even after it was unlinked."""

    @property
    def file(self) -> OpenFile: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    def read(self) -> bytes: ...


Chunk: TypeAlias = bytes | bytearray | FileRange


class SendQueue:
    __slots__ = ("_range_sent", "_simulated", "_socket_fd", "_transport", "chunks", "paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=0, low=0)
        sock = transport.get_extra_info("socket")
        self._transport = transport
        self._simulated = sock is None
        """The simulator has neither sockets of the kernel nor files with descriptors."""
        encrypted = transport.get_extra_info("ssl_object") is not None
        self._socket_fd = NO_DESCRIPTOR if sock is None or encrypted else sock.fileno()
        """The socket, if file ranges may be sent to it as they are."""
        self._range_sent = 0
        """Bytes of the first chunk, a file range, that are sent."""
        self.chunks: deque[Chunk] = deque()
        self.paused = False
        """The socket takes no more bytes."""

    def close(self) -> None:
        """The connection has ended. Without its transport it is freed at once, not by the collector."""
        self.chunks.clear()
        self._transport = _NO_TRANSPORT

    def flush(self) -> bool:
        """Send until the queue is empty; False if the socket takes no more before.

        Raises ConnectionError or TimeoutError if the peer is gone, another OSError if a file cannot be read.
        """
        chunks = self.chunks
        while chunks and not self.paused:
            chunk = chunks[0]
            if not isinstance(chunk, (bytes, bytearray)) and chunk.size > JOINED_RANGE_BYTES:
                self._send_range(chunk)
                continue
            parts: list[bytes | bytearray] = []
            copied = 0
            while chunks and copied <= JOINED_RANGE_BYTES:
                chunk = chunks[0]
                if isinstance(chunk, (bytes, bytearray)):
                    parts.append(chunk)
                elif chunk.size <= JOINED_RANGE_BYTES:
                    parts.append(self._read(chunk))
                    copied += chunk.size
                else:
                    break
                chunks.popleft()
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        return not chunks

    def _send_range(self, chunk: FileRange) -> None:
        """Send as much of a file range as the socket takes."""
        if self._simulated:
            self.chunks.popleft()
            self._transport.write(chunk.read())
            return
        file_fd = chunk.file.fileno()
        size = chunk.size
        position = chunk.position
        sent = self._range_sent
        while sent < size and not self.paused:
            if self._socket_fd == NO_DESCRIPTOR:
                count = self._write_piece(file_fd, position + sent, min(size - sent, TLS_CHUNK_BYTES))
            else:
                try:
                    count = os.sendfile(
                        self._socket_fd, file_fd, position + sent, min(size - sent, SENDFILE_CHUNK_BYTES)
                    )
                except BlockingIOError:
                    # The socket is full. With bytes in the transport the event loop reports when it is not.
                    count = self._write_piece(file_fd, position + sent, min(size - sent, WAKE_CHUNK_BYTES))
            if count == 0:
                raise _file_ends(size - sent)
            sent += count
        if sent == size:
            self._range_sent = 0
            self.chunks.popleft()
        else:
            self._range_sent = sent

    def _write_piece(self, file_fd: int, position: int, size: int) -> int:
        data = os.pread(file_fd, size, position)
        self._transport.write(data)
        return len(data)

    def _read(self, chunk: FileRange) -> bytes:
        if self._simulated:
            data = chunk.read()
        else:
            data = os.pread(chunk.file.fileno(), chunk.size, chunk.position)
        if len(data) < chunk.size:
            raise _file_ends(chunk.size - len(data))
        return data


def _file_ends(missing: int) -> OSError:
    return OSError(f"the file ends {missing} bytes before the end of the range")
