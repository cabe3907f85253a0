"""A network that loses one answer: a relay in front of a broker, for clients that must then ask again."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self

_LENGTH = struct.Struct(">i")
_KEY_AND_CORRELATION = struct.Struct(">hhi")


class AnswerThief:
    """Passes frames on between clients and a broker, until it is told to keep an answer to itself.

    With that answer every connection ends, and none is taken until `let_in_again`. The broker has done what
    it was asked; its client cannot know.
    """

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.stolen = threading.Event()
        self._broker_port = 0
        self._open = False
        self._wanted_api: int | None = None
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._hang_up()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def let_in(self, broker_port: int) -> None:
        """Take connections from now on, and pass them on to the broker at this port."""
        self._broker_port = broker_port
        self._open = True

    def let_in_again(self) -> None:
        self._open = True

    def steal_next(self, api_key: int) -> None:
        self.stolen.clear()
        self._wanted_api = api_key

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # the server's end
            if not self._open:
                client.close()
                continue
            broker = socket.create_connection(("127.0.0.1", self._broker_port))
            with self._lock:
                self._clients.add(client)
            stolen_ids: set[int] = set()
            for pump in (self._pass_requests, self._pass_answers):
                threading.Thread(target=pump, args=(client, broker, stolen_ids), daemon=True).start()

    def _pass_requests(self, client: socket.socket, broker: socket.socket, stolen_ids: set[int]) -> None:
        with contextlib.suppress(OSError), broker:
            while frame := _read_frame(client):
                api_key, _, correlation_id = _KEY_AND_CORRELATION.unpack_from(frame, _LENGTH.size)
                if api_key == self._wanted_api:
                    self._wanted_api = None
                    stolen_ids.add(correlation_id)
                broker.sendall(frame)

    def _pass_answers(self, client: socket.socket, broker: socket.socket, stolen_ids: set[int]) -> None:
        with contextlib.suppress(OSError), client:
            while frame := _read_frame(broker):
                (correlation_id,) = _LENGTH.unpack_from(frame, _LENGTH.size)
                if correlation_id in stolen_ids:
                    self._open = False
                    self._hang_up()
                    self.stolen.set()
                    return
                client.sendall(frame)

    def _hang_up(self) -> None:
        with self._lock:
            for client in self._clients:
                with contextlib.suppress(OSError):  # ended by itself meanwhile
                    client.shutdown(socket.SHUT_RDWR)
            self._clients.clear()


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
