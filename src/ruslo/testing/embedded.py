"""A real broker for tests: a child process with its own data and a free port."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ruslo.model.errors import RusloError
from ruslo.testing.cluster_layout import format_single_node, single_node_properties
from ruslo.testing.ports import LOOPBACK


class BrokerFailed(RusloError):
    """The broker did not start, or exited unexpectedly. The message contains the end of its log."""


class EmbeddedBroker:
    """``with EmbeddedBroker() as broker: Producer({"bootstrap.servers": broker.bootstrap})``.

    ``properties`` are broker properties, e.g. ``{"num.partitions": "3"}``. Without ``data_dir``
    the data is in a temporary folder, which ``close`` (or the end of the ``with`` block) removes.
    ``stop`` and ``kill`` keep the data; ``start`` and ``restart`` use it again, at the same address.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        data_dir: Path | None = None,
        port: int = 0,
        start_timeout_s: float = 30.0,
    ) -> None:
        self._overrides = dict(properties or {})
        self._start_timeout_s = start_timeout_s
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        # Not the data folder itself: a log directory contains only partitions.
        self._folder = tempfile.TemporaryDirectory(prefix="ruslo-", ignore_cleanup_errors=True)
        self.data_dir = Path(self._folder.name) / "data" if data_dir is None else data_dir
        self._log_path = Path(self._folder.name) / "broker.log"

    @property
    def bootstrap(self) -> str:
        """The ``bootstrap.servers`` of clients."""
        if self._port == 0:
            raise BrokerFailed("the broker has no address before it is started. Call start() first")
        return f"{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BrokerFailed("the broker is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the broker; returns when clients can connect."""
        if self._process is not None:
            raise BrokerFailed("the broker is already running")
        try:
            properties_path = self._prepare()
        except RusloError as error:
            raise BrokerFailed(f"the broker failed to start: {error}") from error
        ready_read, ready_write = os.pipe()
        try:
            with self._log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "ruslo.broker.node.process",
                        str(properties_path),
                        "info",
                        str(ready_write),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(ready_write,),
                    # Keep Ctrl-C from the broker: the test stops it.
                    start_new_session=True,
                )
            os.close(ready_write)
            ready_write = -1
            self._port = self._wait_ready(ready_read)
        except BaseException:
            self.kill()
            raise
        finally:
            os.close(ready_read)
            if ready_write >= 0:
                os.close(ready_write)
        return self

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop the broker cleanly; raises if it exits with an error."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """Kill the broker (SIGKILL)."""
        self._end(signal.SIGKILL, 10.0)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop and remove the temporary folder."""
        try:
            self.stop()
        finally:
            self._folder.cleanup()

    def output(self, lines: int = 50) -> str:
        """The last lines of the broker's log."""
        if not self._log_path.exists():
            return ""
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        if self._process is None:
            self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _prepare(self) -> Path:
        """Format the data folder if it is new; return the property file."""
        from ruslo.config.broker import BrokerConfig
        from ruslo.config.properties import format_properties

        self.data_dir.mkdir(parents=True, exist_ok=True)
        properties = single_node_properties(self.data_dir, port=self._port, overrides=self._overrides)
        path = Path(self._folder.name) / "server.properties"
        path.write_text(format_properties(properties))
        format_single_node(BrokerConfig.from_properties(properties))
        return path

    def _wait_ready(self, ready_read: int) -> int:
        deadline = time.monotonic() + self._start_timeout_s
        # select() does not support descriptors above 1023.
        poll = select.poll()
        poll.register(ready_read, select.POLLIN)
        line = b""
        while True:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise BrokerFailed(
                    f"the broker was not ready within {self._start_timeout_s:g} s:\n{self.output()}"
                )
            chunk = os.read(ready_read, 1024)
            if not chunk:
                break
            line += chunk
        if not line:
            raise BrokerFailed(f"the broker exited before it was ready:\n{self.output()}")
        return int(line.decode().split(",")[0].rpartition(":")[2])

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        exited_before = process.poll()
        if exited_before is None:
            process.send_signal(number)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(f"the broker did not stop within {timeout_s:g} s:\n{self.output()}") from None
        finally:
            if process.stdin is not None:
                process.stdin.close()
        if number != signal.SIGKILL and (exited_before is not None or code != 0):
            how = "had already exited" if exited_before is not None else "stopped"
            raise BrokerFailed(f"the broker {how} with exit code {code}:\n{self.output()}")
