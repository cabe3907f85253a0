"""A relay in front of a broker that loses one response, for clients that must then retry."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

_LENGTH = struct.Struct(">i")
_KEY_AND_CORRELATION = struct.Struct(">hhi")


class LossyRelay:
    """Forwards frames between clients and a broker until it drops a response.

    With the dropped response it closes every connection, and it accepts none until `reopen`. The broker has
    processed the request; its client cannot know.
    """

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.dropped = threading.Event()
        self._broker_port = 0
        self._open = False
        self._api_to_drop: int | None = None
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing a socket does not wake a thread that accepts on it; shutting it down does.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._close_connections()
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def forward_to(self, broker_port: int) -> None:
        """Accept connections, and forward them to the broker at this port."""
        self._broker_port = broker_port
        self._open = True

    def reopen(self) -> None:
        self._open = True

    def drop_next_response(self, api_key: int) -> None:
        self.dropped.clear()
        self._api_to_drop = api_key

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # the relay is closed
            if not self._open:
                client.close()
                continue
            try:
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
            except ConnectionRefusedError:
                client.close()  # the broker has stopped
                continue
            with self._lock:
                self._sockets |= {client, broker}
            dropped_ids: set[int] = set()
            self._start(self._forward_requests, client, broker, dropped_ids)
            self._start(self._forward_responses, client, broker, dropped_ids)

    def _forward_requests(self, client: socket.socket, broker: socket.socket, dropped_ids: set[int]) -> None:
        with contextlib.suppress(OSError):
            while frame := _read_frame(client):
                api_key, _, correlation_id = _KEY_AND_CORRELATION.unpack_from(frame, _LENGTH.size)
                if api_key == self._api_to_drop:
                    self._api_to_drop = None
                    dropped_ids.add(correlation_id)
                broker.sendall(frame)
        _shut_down(client, broker)

    def _forward_responses(self, client: socket.socket, broker: socket.socket, dropped_ids: set[int]) -> None:
        with contextlib.suppress(OSError):
            while frame := _read_frame(broker):
                (correlation_id,) = _LENGTH.unpack_from(frame, _LENGTH.size)
                if correlation_id in dropped_ids:
                    self._open = False
                    self._close_connections()
                    self.dropped.set()
                    return
                client.sendall(frame)
        _shut_down(client, broker)

    def _close_connections(self) -> None:
        """End all connections. Their sockets are closed when no thread reads from them any more."""
        with self._lock:
            _shut_down(*self._sockets)


def _shut_down(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):  # the peer has ended the connection already
            each.shutdown(socket.SHUT_RDWR)


def _read_frame(source: socket.socket) -> bytes:
    """A frame with its length; empty at the end of the stream."""
    frame = _read_exactly(source, _LENGTH.size)
    return frame and frame + _read_exactly(source, _LENGTH.unpack(frame)[0])


def _read_exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            return b""
        data += part
    return data
