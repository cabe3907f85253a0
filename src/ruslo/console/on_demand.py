"""A console that costs nothing until a browser comes: its process starts with the first visit."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

from ruslo.console.serving import PortTaken, address_of, bind
from ruslo.console.settings import DEFAULT_PORT

_LOOPBACK = "127.0.0.1"
_STOP_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.5


class ConsoleOnDemand:
    """``with ConsoleOnDemand(bootstrap) as console: print(console.address)``. On the loopback only."""

    def __init__(self, bootstrap: str, port: int | None = None) -> None:
        """Without a port the usual one is taken, or any free one where that is not to be had."""
        self._bootstrap = bootstrap
        self._listener = _bind(port)
        self.address = address_of(self._listener)
        self._wake_read, self._wake_write = os.pipe()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait_for_visits, name="console", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._over.set()
        os.write(self._wake_write, b"!")
        self._thread.join()
        self._listener.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wait_for_visits(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while not self._over.is_set():
                selector.select()
                if not self._over.is_set():
                    # From here on the child accepts; should it die, the next visit starts another.
                    self._run_process()

    def _run_process(self) -> None:
        fd = self._listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "ruslo.console.process", self._bootstrap, str(fd)],
            stdin=subprocess.PIPE,
            pass_fds=(fd,),
            # Ctrl-C is for the parent, which stops its children in order.
            start_new_session=True,
        )
        while process.poll() is None and not self._over.wait(_LOOK_EVERY_S):
            pass
        process.terminate()
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _bind(port: int | None) -> socket.socket:
    if port is not None:
        return bind(_LOOPBACK, port)
    with contextlib.suppress(PortTaken):
        return bind(_LOOPBACK, DEFAULT_PORT)
    return bind(_LOOPBACK, 0)
