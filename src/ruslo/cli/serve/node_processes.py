"""Runs several nodes as child processes: starts and stops them together, and restarts those that crash.

Each child writes its bootstrap address to a pipe when it is ready, and exits with its parent.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from ruslo.cli.terminal.output import hint
from ruslo.config.properties import format_properties
from ruslo.model.errors import RusloError

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_POLL_INTERVAL_S = 0.2
_RESTART_BACKOFFS_S = (0.5, 2.0, 10.0)
_STABLE_UPTIME_S = 60.0
"""Uptime after which the restart backoff is reset."""
_CLEAN_EXIT_CODES = (0, -signal.SIGTERM)
"""SIGTERM itself ends a node that has not installed its signal handler yet."""


class NodesFailed(RusloError):
    """A node exited before it was ready."""


class _NodeProcess:
    def __init__(self, node_id: str, command: Sequence[str]) -> None:
        self.node_id = node_id
        self._command = command
        self.failures = 0
        self.started_s = 0.0
        self.restart_at_s: float | None = None
        self.ready_fd = -1
        """Read end of the pipe that the child reports its address on."""
        self.start()

    def start(self) -> None:
        if self.ready_fd >= 0:
            os.close(self.ready_fd)
        ready_read, ready_write = os.pipe()
        self.process = subprocess.Popen(
            [*self._command, str(ready_write)],
            stdin=subprocess.PIPE,
            pass_fds=(ready_write,),
            # Keep Ctrl-C from the children: the parent stops them.
            start_new_session=True,
        )
        os.close(ready_write)
        self.ready_fd = ready_read
        self.started_s = time.monotonic()
        self.restart_at_s = None

    def backoff_s(self) -> float:
        """The time until the next restart."""
        if time.monotonic() - self.started_s > _STABLE_UPTIME_S:
            self.failures = 0
        backoff_s = _RESTART_BACKOFFS_S[min(self.failures, len(_RESTART_BACKOFFS_S) - 1)]
        self.failures += 1
        return backoff_s


class NodeProcesses:
    def __init__(self, nodes: Sequence[Mapping[str, str]], log_level: str) -> None:
        """Start the nodes with these properties. Their log directories must be formatted."""
        self._folder = tempfile.TemporaryDirectory(prefix="ruslo-nodes-", ignore_cleanup_errors=True)
        self._stopping = False
        self._nodes: list[_NodeProcess] = []
        try:
            for properties in nodes:
                file = Path(self._folder.name) / f"node-{properties['node.id']}.properties"
                file.write_text(format_properties(properties))
                command = [sys.executable, "-m", "ruslo.broker.node.process", str(file), log_level]
                self._nodes.append(_NodeProcess(properties["node.id"], command))
        except BaseException:
            self._stop_all()
            raise

    def run(self, on_ready: Callable[[list[str]], None]) -> int:
        """Run until SIGTERM or SIGINT; return the exit code. ``on_ready`` gets the nodes' addresses."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        try:
            addresses = self._wait_until_ready()
            if not self._stopping:
                on_ready(addresses)
            while not self._stopping:
                self._restart_crashed()
                time.sleep(_POLL_INTERVAL_S)
        finally:
            clean = self._stop_all()
            self._folder.cleanup()
        return 0 if clean else 1

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _wait_until_ready(self) -> list[str]:
        deadline = time.monotonic() + _START_TIMEOUT_S
        addresses: dict[str, str] = {}
        with selectors.DefaultSelector() as selector:
            for node in self._nodes:
                selector.register(node.ready_fd, selectors.EVENT_READ, node)
            while len(addresses) < len(self._nodes) and not self._stopping:
                if time.monotonic() > deadline:
                    waiting = [node.node_id for node in self._nodes if node.node_id not in addresses]
                    raise NodesFailed(
                        f"Node {', '.join(waiting)} was not ready within {_START_TIMEOUT_S:g} s. "
                        "See its log above"
                    )
                for key, _ in selector.select(_POLL_INTERVAL_S):
                    ready: _NodeProcess = key.data
                    line = os.read(ready.ready_fd, 4096).decode()
                    selector.unregister(ready.ready_fd)
                    if not line:
                        raise NodesFailed(f"Node {ready.node_id} failed to start. See its log above")
                    addresses[ready.node_id] = line
        return [addresses[node.node_id] for node in self._nodes if node.node_id in addresses]

    def _restart_crashed(self) -> None:
        for node in self._nodes:
            if node.restart_at_s is not None:
                if time.monotonic() >= node.restart_at_s:
                    node.start()
            elif (code := node.process.poll()) is not None:
                backoff_s = node.backoff_s()
                node.restart_at_s = time.monotonic() + backoff_s
                hint(f"Node {node.node_id} exited with code {code}. Restarting it in {backoff_s:g} s")

    def _stop_all(self) -> bool:
        """Stop all nodes; True if all of them stopped cleanly."""
        clean = True
        running = [node for node in self._nodes if node.process.poll() is None]
        for node in running:
            node.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for node in running:
            try:
                clean = (
                    node.process.wait(max(0.0, deadline - time.monotonic())) in _CLEAN_EXIT_CODES and clean
                )
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()
                clean = False
        for node in self._nodes:
            if node.process.stdin is not None:
                node.process.stdin.close()
            os.close(node.ready_fd)
        return clean
