"""A console whose process starts with the first browser connection."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

from ruslo.console.serving import PortInUse, address_of, bind
from ruslo.console.settings import DEFAULT_PORT

_LOOPBACK = "127.0.0.1"
_STOP_TIMEOUT_S = 5.0
_CHECK_INTERVAL_S = 0.5


class ConsoleOnDemand:
    """``with ConsoleOnDemand(bootstrap) as console: print(console.address)``. On the loopback only."""

    def __init__(self, bootstrap: str, port: int | None = None, client_file: Path | None = None) -> None:
        """The default port is 8090, or any free port if 8090 is in use.

        ``client_file`` is a property file with a client's settings of a secured cluster, without a user: the
        console's users log in as users of the cluster.
        """
        self._arguments = [bootstrap] if client_file is None else [bootstrap, str(client_file)]
        self._listener = _bind(port)
        self.address = address_of(self._listener)
        self._wake_read, self._wake_write = os.pipe()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._wait_for_connections, name="console", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        os.write(self._wake_write, b"!")
        self._thread.join()
        self._listener.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wait_for_connections(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while not self._closed.is_set():
                selector.select()
                if not self._closed.is_set():
                    # The child accepts from now on. If it dies, the next connection starts another one.
                    self._run_process()

    def _run_process(self) -> None:
        fd = self._listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "ruslo.console.process", str(fd), *self._arguments],
            stdin=subprocess.PIPE,
            pass_fds=(fd,),
            # Only the parent handles Ctrl-C; it stops its children in order.
            start_new_session=True,
        )
        while process.poll() is None and not self._closed.wait(_CHECK_INTERVAL_S):
            pass
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _bind(port: int | None) -> socket.socket:
    if port is not None:
        return bind(_LOOPBACK, port)
    with contextlib.suppress(PortInUse):
        return bind(_LOOPBACK, DEFAULT_PORT)
    return bind(_LOOPBACK, 0)
